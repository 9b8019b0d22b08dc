"""What the benchmarks print at their end."""

import printed_tables


def test_a_note_is_printed_with_its_brackets(capsys):
    note = "titans-pytorch left out: pip install 'memjax[bench]'"
    printed_tables.surprise({"rows": [], "matmul": [], "ratios": [], "targets": [], "notes": [note]})
    assert note in capsys.readouterr().out
