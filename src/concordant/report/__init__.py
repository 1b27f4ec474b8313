"""Plots and HTML reports.

`plots` has one function for each plot, which returns Matplotlib axes. `content` computes what a report shows as plain
data, and `page` renders it as HTML without Matplotlib.
"""
