//! The target behind all relays, and clients that keep them busy for a while.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use switchyard_lab::Host;

use super::rivals::Running;

/// Threads that dial at the same time.
const DIALLERS: usize = 4;
/// A question and its answer.
const QUESTION: usize = 64;
const CHUNK: usize = 256 * 1024;

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// So many connections send as much as they can.
    Stream(usize),
    /// Connections are made, used for one question, and closed.
    Connections,
    /// One connection asks and waits for each answer.
    Answers,
}

impl Work {
    /// A value per second with its unit.
    pub(super) fn describe(self, reached: f64) -> String {
        match self {
            Self::Stream(_) => format!("{:.0} MB/s", reached / 1e6),
            Self::Connections | Self::Answers => format!("{reached:.0} per second"),
        }
    }
}

/// Where targets listen: one reads all it gets, one answers, one never accepts.
pub(super) struct Target {
    pub(super) sink: SocketAddr,
    pub(super) echo: SocketAddr,
    pub(super) silent: SocketAddr,
    read: Arc<AtomicU64>,
    /// Its queue accepts, nobody else does.
    _queue: TcpListener,
}

impl Target {
    /// Starts them in a namespace. Their threads end with the program.
    pub(super) fn start(host: &Host) -> Result<Self> {
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let queue = || {
            std::fs::write("/proc/sys/net/core/somaxconn", "65535")?;
            listen()
        };
        let (sink, echo, silent) = (host.run(listen)??, host.run(listen)??, host.run(queue)??);
        let read = Arc::new(AtomicU64::new(0));
        let addresses = (sink.local_addr()?, echo.local_addr()?, silent.local_addr()?);
        let count = read.clone();
        thread::spawn(move || {
            for stream in sink.incoming().map_while(Result::ok) {
                let count = count.clone();
                thread::spawn(move || swallow(stream, &count));
            }
        });
        let echo = Arc::new(echo);
        for _ in 0..DIALLERS {
            let echo = echo.clone();
            thread::spawn(move || {
                echo.incoming().map_while(Result::ok).for_each(|stream| drop(answer(stream)))
            });
        }
        Ok(Self { sink: addresses.0, echo: addresses.1, silent: addresses.2, read, _queue: silent })
    }

    /// Lets clients work through a relay; what they reached per second.
    pub(super) fn load(&self, host: &Host, work: Work, relay: &Running, time: Duration) -> Result<f64> {
        let reached = host.run(|| match work {
            Work::Stream(count) => self.stream(relay.sink, count, time),
            Work::Connections => connections(relay.echo, time),
            Work::Answers => answers(relay.echo, time),
        })?;
        reached.with_context(|| format!("{work:?} through {}", relay.rival.name()))
    }

    fn stream(&self, to: SocketAddr, count: usize, time: Duration) -> Result<f64> {
        let stop = AtomicBool::new(false);
        let streams: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(to)).collect::<Result<_, _>>()?;
        thread::scope(|scope| {
            for mut stream in streams {
                let stop = &stop;
                scope.spawn(move || {
                    let chunk = vec![7; CHUNK];
                    while !stop.load(Ordering::Relaxed) && stream.write_all(&chunk).is_ok() {}
                });
            }
            // What was begun before is not counted.
            thread::sleep(time / 4);
            let (begin, before) = (Instant::now(), self.read.load(Ordering::Relaxed));
            thread::sleep(time);
            let (bytes, passed) = (self.read.load(Ordering::Relaxed) - before, begin.elapsed());
            stop.store(true, Ordering::Relaxed);
            Ok(per_second(bytes, passed))
        })
    }
}

fn swallow(mut stream: TcpStream, count: &AtomicU64) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        count.fetch_add(u64::try_from(bytes).unwrap_or_default(), Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut question = [0; QUESTION];
    loop {
        match stream.read_exact(&mut question) {
            Ok(()) => stream.write_all(&question)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn ask(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut buffer = [1; QUESTION];
    stream.write_all(&buffer)?;
    stream.read_exact(&mut buffer)
}

fn connections(to: SocketAddr, time: Duration) -> Result<f64> {
    let begin = Instant::now();
    let dial = || -> std::io::Result<u64> {
        let mut made = 0;
        while begin.elapsed() < time {
            let mut stream = TcpStream::connect(to)?;
            ask(&mut stream)?;
            made += 1;
        }
        Ok(made)
    };
    let made: std::io::Result<Vec<u64>> = thread::scope(|scope| {
        let all: Vec<_> = (0..DIALLERS).map(|_| scope.spawn(dial)).collect();
        let end = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a client died")))
        };
        all.into_iter().map(end).collect()
    });
    Ok(per_second(made?.into_iter().sum(), begin.elapsed()))
}

fn answers(to: SocketAddr, time: Duration) -> Result<f64> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    ask(&mut stream)?;
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < time {
        ask(&mut stream)?;
        count += 1;
    }
    Ok(per_second(count, begin.elapsed()))
}

fn per_second(count: u64, passed: Duration) -> f64 {
    // Exact up to 2^53, which nobody reaches.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    let count = count as f64;
    count / passed.as_secs_f64().max(1e-9)
}
