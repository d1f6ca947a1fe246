//! Connections to servers: one supervised task each, negotiation, health, inventory.
