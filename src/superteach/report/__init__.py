"""Reports: one self-contained HTML file that says what was asked, what came of it, and what it took."""

from superteach.report.lesson_page import page_of
from superteach.report.page import Page, Section
from superteach.report.plots import Plot

__all__ = ["Page", "Plot", "Section", "page_of"]
