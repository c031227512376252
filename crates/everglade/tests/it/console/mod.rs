//! The console: its pages in a real browser, and its walls against other sites.

mod browser;
mod pages;
mod walls;
