"""Reports: one self-contained HTML file that says what was asked, what came of it, and what it took."""

from superteach.report.charts import Axis, Bars, Chart, Level, Mark, Pairs, Series
from superteach.report.of_lesson import page_of
from superteach.report.page import Page, Section

__all__ = ["Axis", "Bars", "Chart", "Level", "Mark", "Page", "Pairs", "Section", "Series", "page_of"]
