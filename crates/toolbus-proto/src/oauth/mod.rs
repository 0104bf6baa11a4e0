//! OAuth: how a back that wants a sign-in gets its tokens, and what the metadata of servers says.
//!
//! Pure as all rooms: what servers have answered comes in, what is asked of them next and what is
//! true of it goes out. Instants and random bytes come from outside. [`metadata`] and [`document`]
//! serve both sides, those who sign in and those who judge tokens.

pub mod base64url;
pub mod challenge;
pub mod claims;
pub mod device;
pub mod discovery;
pub mod document;
pub mod flow;
pub mod front;
pub mod hidden;
pub mod identity;
pub mod jwt;
pub mod keyset;
pub mod metadata;
pub mod refresh;
pub mod settings;
pub mod signing;
pub mod stored;
pub mod token;
pub mod web;
