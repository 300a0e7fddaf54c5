use std::io;

/// First I/O error of a log writer. The writer is a watch, whose methods cannot return errors.
#[derive(Debug, Default)]
pub(super) struct Failure(Option<io::Error>);

impl Failure {
    pub(super) fn note(&mut self, result: io::Result<()>) {
        if self.0.is_none() {
            self.0 = result.err();
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn take(&mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), Err)
    }
}
