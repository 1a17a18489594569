//! The meter: compute, time, rows and bytes per lease, and the budgets they are held against.
