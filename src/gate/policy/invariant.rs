//! What no policy file can loosen: which capability a class of statements takes.

use crate::gate::capability::{Capabilities, Capability};
use crate::gate::class::{Class, Classes};

/// The classes in `needs` that a lease with these capabilities can never have.
///
/// `operator` is true for an attached database whose lease names a policy of the operator's; it
/// alone opens `admin`.
pub fn missing(needs: Classes, capabilities: Capabilities, operator: bool) -> Classes {
    needs.iter().filter(|class| !has(*class, capabilities, operator)).collect()
}

fn has(class: Class, capabilities: Capabilities, operator: bool) -> bool {
    match class {
        Class::Read => capabilities.has(Capability::Read),
        Class::Write => capabilities.has(Capability::Write),
        Class::Migrate => capabilities.has(Capability::Migrate),
        // Emptying a table is more than changing rows; a policy has to name it besides.
        Class::Truncate => {
            capabilities.has(Capability::Write) || capabilities.has(Capability::Migrate)
        }
        Class::Session => !capabilities.is_empty(),
        Class::Admin => operator,
    }
}
