"""Methods: each ranks or chooses the teachers' rows; none of them scores itself."""
