"""Web sites as browsers fetch them: recorded, replayed behind a link, and timed."""
