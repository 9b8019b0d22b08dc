"""NumPy float64 re-derivations, written from the equations in plain loops; they share no code with memjax."""
