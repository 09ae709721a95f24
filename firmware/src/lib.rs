//! What commands mean: life cycle, capabilities, pages, objects, events, health.
