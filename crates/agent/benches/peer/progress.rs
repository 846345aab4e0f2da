//! A bar that says what runs and how long the rest may take.
//!
//! The estimate assumes that the time of a cell grows with its number of Services, from a part that every cell has.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::options::Cell;

const WIDTH: usize = 30;

/// See the module.
pub(crate) struct Progress {
    begin: Instant,
    total: f64,
    done: f64,
    now: RefCell<String>,
}

impl Progress {
    pub(crate) fn new(todo: &[Cell]) -> Self {
        let total = todo.iter().map(weight).sum();
        Self { begin: Instant::now(), total, done: 0.0, now: RefCell::default() }
    }

    pub(crate) fn begin(&self, cell: &Cell) {
        let Cell { services, kind, round, extent: _ } = cell;
        *self.now.borrow_mut() = format!("{services} Services, {}, round {}: ", kind.name, round + 1);
    }

    pub(crate) fn end(&mut self, cell: &Cell) {
        self.done += weight(cell);
    }

    /// What runs now.
    pub(crate) fn tell(&self, what: &str) {
        let part = if self.total > 0.0 { self.done / self.total } else { 1.0 };
        let filled = (0..WIDTH).map(|n| n as f64 / WIDTH as f64);
        let bar: String = filled.map(|at| if at < part { '#' } else { '.' }).collect();
        println!("[{bar}] {:>3.0} %, {}: {}{what}", part * 100.0, self.rest(part), self.now.borrow());
    }

    fn rest(&self, part: f64) -> String {
        if part <= 0.0 {
            return "no estimate yet".to_owned();
        }
        let rest = self.begin.elapsed().mul_f64((1.0 - part) / part);
        format!("about {} min left", rest.max(Duration::from_secs(1)).as_secs().div_ceil(60))
    }
}

fn weight(cell: &Cell) -> f64 {
    60.0 + f64::from(cell.services) / 40.0
}
