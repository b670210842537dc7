//! Messages that take the place of others on the surface (L-8).
