//! How a session is told to end, from outside, without a lock or a timer on its way.

use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Context;

use futures_util::task::AtomicWaker;

use super::LeaseEnd;
use crate::error::SqlState;
use crate::wire::ErrorFields;

/// One session's ear.
#[derive(Debug, Default)]
pub struct Control {
    order: AtomicU8,
    activity: AtomicU8,
    waker: AtomicWaker,
}

/// What a session is told to do. A stronger order replaces a weaker one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Postern shuts down: end when no transaction is open and nothing is under way.
    EndWhenIdle,
    /// Postern shuts down and waits no longer.
    EndNow,
    /// The lease is over.
    LeaseEnded(LeaseEnd),
}

impl Order {
    const fn code(self) -> u8 {
        match self {
            Self::EndWhenIdle => 1,
            Self::EndNow => 2,
            Self::LeaseEnded(LeaseEnd::Expired) => 3,
            Self::LeaseEnded(LeaseEnd::Revoked) => 4,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::EndWhenIdle),
            2 => Some(Self::EndNow),
            3 => Some(Self::LeaseEnded(LeaseEnd::Expired)),
            4 => Some(Self::LeaseEnded(LeaseEnd::Revoked)),
            _ => None,
        }
    }

    /// What the client is told.
    pub(super) fn farewell(self, lease: &str) -> ErrorFields {
        match self {
            Self::EndWhenIdle | Self::EndNow => ErrorFields::new(
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection because postern is shutting down",
            )
            .hint("Connect again in a moment; the branch and its data stay."),
            Self::LeaseEnded(end) => ErrorFields::new(
                SqlState::ADMIN_SHUTDOWN,
                format!("terminating connection because lease {lease} is {}", end.as_str()),
            )
            .hint("Ask for a new lease; one that is needed longer can be renewed before it ends."),
        }
    }
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// Logging in.
    Starting,
    /// Something is under way.
    Active,
    /// Nothing is, and no transaction is open.
    Idle,
    /// Nothing is; a transaction is open.
    InTransaction,
    /// Nothing is; a failed transaction is open.
    InFailedTransaction,
}

impl Activity {
    /// By the transaction status of a `ReadyForQuery`.
    pub(super) const fn of(status: u8) -> Self {
        match status {
            b'T' => Self::InTransaction,
            b'E' => Self::InFailedTransaction,
            _ => Self::Idle,
        }
    }

    /// In the words of `pg_stat_activity.state`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Active => "active",
            Self::Idle => "idle",
            Self::InTransaction => "idle in transaction",
            Self::InFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

impl Control {
    /// What the session is doing.
    pub(super) fn activity(&self) -> Activity {
        match self.activity.load(Ordering::Relaxed) {
            1 => Activity::Active,
            2 => Activity::Idle,
            3 => Activity::InTransaction,
            4 => Activity::InFailedTransaction,
            _ => Activity::Starting,
        }
    }

    pub(super) fn set_activity(&self, activity: Activity) {
        self.activity.store(activity as u8, Ordering::Relaxed);
    }

    /// Gives an order. It is carried out at the session's next turn, which is at once.
    pub fn order(&self, order: Order) {
        self.order.fetch_max(order.code(), Ordering::AcqRel);
        self.waker.wake();
    }

    /// The order in force.
    pub(super) fn current(&self) -> Option<Order> {
        Order::from_code(self.order.load(Ordering::Acquire))
    }

    /// Has the task woken by the next order.
    pub(super) fn register(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
    }
}
