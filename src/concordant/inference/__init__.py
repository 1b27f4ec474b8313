"""What surrounds an estimate: standard errors, intervals, tables of experts, explanations of scores."""
