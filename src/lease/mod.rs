//! Leases: the contract that gives one run authority over one branch.
