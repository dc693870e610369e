"""Reports: one self-contained HTML file that says what was asked, what came of it, and what it took."""

from superteach.report.page import Page, Section, page_of
from superteach.report.plots import Plot

__all__ = ["Page", "Plot", "Section", "page_of"]
