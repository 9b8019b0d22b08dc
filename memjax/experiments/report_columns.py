"""Columns of several families' reports: the share of answers that are wrong, and of those that are right."""

from memjax.reporting.description import Column

ERROR = Column("error %", ("accuracy",), "error", "lower")
ACCURACY = Column("accuracy %", ("accuracy",), "percent", "higher")
