//! Objects from the API server.
