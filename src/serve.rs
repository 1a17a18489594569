//! A running postern: the service, the proxy and the admin API together.
