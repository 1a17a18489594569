//! Errors of ours that wait for the server to fail where a refused message stood.

use std::collections::VecDeque;

use crate::wire::frame::frontend;
use crate::wire::{ErrorFields, message};

/// Refusals that the server has not reached yet.
#[derive(Debug, Default)]
pub struct Denials {
    waiting: VecDeque<Denial>,
}

#[derive(Debug)]
struct Denial {
    number: u64,
    marker: String,
    fields: ErrorFields,
}

impl Denials {
    /// Refuses message `number`: appends one to `out` that stands in for it, and gives its type.
    ///
    /// Its SQL cannot parse, in whatever state the transaction is, so the server raises an error
    /// at this very point; and nobody can guess it, so the error is known for ours.
    pub fn refuse(
        &mut self,
        number: u64,
        kind: u8,
        body: &[u8],
        fields: ErrorFields,
        out: &mut Vec<u8>,
    ) -> u8 {
        let marker = format!("postern_refused_{}", uuid::Uuid::new_v4().simple());
        let stand_in = match kind {
            frontend::PARSE => {
                let name = message::take_str(&mut { body }).unwrap_or_default();
                parse(out, name, &marker);
                frontend::PARSE
            }
            // In the extended protocol a Parse fails as they would; under a name of its own, for
            // a failing Parse without a name would take the unnamed statement with it.
            frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE | frontend::CLOSE => {
                parse(out, marker.as_bytes(), &marker);
                frontend::PARSE
            }
            // A FunctionCall is answered like a Query: a result or an error, then ReadyForQuery.
            _ => {
                message::query(out, &marker);
                frontend::QUERY
            }
        };
        self.waiting.push_back(Denial { number, marker, fields });
        stand_in
    }

    /// Our error in place of the server's for message `number`, when it is the one that a refused
    /// message was replaced to raise.
    pub fn take(&mut self, number: u64, error: &[u8]) -> Option<ErrorFields> {
        let next = self.waiting.front().filter(|next| next.number == number)?;
        let text = message::error_field(error, b'M')?;
        let marker = next.marker.as_bytes();
        if !text.windows(marker.len()).any(|part| part == marker) {
            return None;
        }
        self.waiting.pop_front().map(|denial| denial.fields)
    }

    /// Forgets those before message `oldest`: the server is past them, it skipped them.
    pub fn forget_before(&mut self, oldest: u64) {
        while self.waiting.front().is_some_and(|denial| denial.number < oldest) {
            self.waiting.pop_front();
        }
    }
}

fn parse(out: &mut Vec<u8>, name: &[u8], sql: &str) {
    message::put(out, frontend::PARSE, |out| {
        out.extend(name);
        out.push(0);
        message::put_str(out, sql);
        out.extend([0, 0]);
    });
}
