//! The runner's side: it proves itself, executes the loops of the runs that it is given, and asks the gateway for
//! everything else.

mod remote;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use toolcrib_agent::driver::Runs;
use toolcrib_base::task::{Scope, Stop};

use crate::frame::{Frame, FrameType};
use crate::link::{ConnectionError, FrameReader, FrameSender, converse};
use crate::payload::{
    Assignment, Challenge, ConfigAck, ConfigUpdate, Heartbeat, Hello, News, OfLease, Pong, RunnerConfig, Status,
    VERSION, Welcome,
};
use crate::proof::{Side, Transcript, Trust, nonce};
use remote::{Gateway, Lent};

/// How long runs may take to end when the runner stops: calls of theirs are waited for.
const LAST_CALLS: Duration = Duration::from_secs(60);

/// A runner.
#[derive(Debug, Clone)]
pub struct Runner {
    name: String,
    trust: Trust,
    began: Instant,
}

impl Runner {
    /// A runner with a name for people.
    pub fn new(name: impl Into<String>, trust: Trust) -> Self {
        Self { name: name.into(), trust, began: Instant::now() }
    }

    /// Executes what the gateway at the other end gives it, until the connection ends or the runner stops: then runs end
    /// their calls, and the gateway takes them back.
    pub async fn serve<S>(&self, stream: S, stop: Stop) -> ConnectionError
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        converse(stream, async move |reader, sender| {
            // What a runner executes ends with its connection.
            let scope = Scope::new();
            let Err(error) = self.talk(reader, sender, stop, &scope).await;
            scope.close(Duration::ZERO).await;
            error
        })
        .await
    }

    async fn prove<R>(&self, reader: &mut FrameReader<R>, frames: &FrameSender) -> Result<(), ConnectionError>
    where
        R: AsyncRead + Unpin,
    {
        let frame = reader.next().await?.frame;
        if frame.kind != FrameType::Challenge {
            return Err(ConnectionError::misplaced(&frame, "came before `challenge`"));
        }
        let challenge: Challenge = frame.read()?;
        if challenge.version != VERSION {
            return Err(ConnectionError::Version(challenge.version));
        }
        let ours = nonce();
        let said =
            Transcript { version: VERSION, gateway_nonce: &challenge.nonce, runner_nonce: &ours, name: &self.name };
        let proof = self.trust.secret().map(|secret| said.prove(Side::Runner, secret));
        let hello = Hello { version: VERSION, name: self.name.clone(), nonce: ours.clone(), proof };
        frames.send(&Frame::new(FrameType::Hello, "", &hello)).await?;
        let frame = reader.next().await?.frame;
        if frame.kind != FrameType::Welcome {
            return Err(ConnectionError::misplaced(&frame, "came before `welcome`"));
        }
        let welcome: Welcome = frame.read()?;
        if let Some(secret) = self.trust.secret()
            && !said.is_proven(Side::Gateway, secret, welcome.proof.as_deref())
        {
            return Err(ConnectionError::Unproven("gateway"));
        }
        reader.is_proven();
        Ok(())
    }

    async fn talk<R>(
        &self,
        mut reader: FrameReader<R>,
        frames: FrameSender,
        mut stop: Stop,
        scope: &Scope,
    ) -> Result<std::convert::Infallible, ConnectionError>
    where
        R: AsyncRead + Unpin,
    {
        let proven = tokio::time::timeout(crate::link::HANDSHAKE, self.prove(&mut reader, &frames)).await;
        proven.unwrap_or(Err(ConnectionError::Silent(crate::link::HANDSHAKE)))?;
        let calls = Scope::new();
        let gateway = Arc::new(Gateway::new(frames.clone(), calls.clone()));
        let mut work = Desk { frames, gateway, scope: scope.clone(), config: None };
        let mut beat = tokio::time::interval(Duration::from_secs(10));
        let (mut is_stopping, mut ended) = (false, None);
        let end = loop {
            tokio::select! {
                // All are cancel-safe.
                incoming = reader.next() => {
                    let applied = match incoming {
                        Ok(incoming) => work.take(&incoming.frame).await,
                        Err(error) => Err(error),
                    };
                    match applied {
                        Ok(None) => {}
                        Ok(Some(config)) => {
                            reader.set_silence(Duration::from_millis(config.silence_ms.max(1)));
                            beat = tokio::time::interval(Duration::from_millis(config.heartbeat_ms.max(1)));
                        }
                        Err(error) => break error,
                    }
                }
                _ = beat.tick() => work.beat(self.began, is_stopping),
                () = stop.stopped(), if !is_stopping => {
                    is_stopping = true;
                    work.beat(self.began, is_stopping);
                    let runs = scope.clone();
                    // Runs end their calls and say that they rest; the frames of both still go to and fro meanwhile.
                    ended = Some(calls.spawn(async move { runs.close(LAST_CALLS).await }));
                }
                () = ending(&mut ended) => break ConnectionError::Stopped,
            }
        };
        calls.close(Duration::ZERO).await;
        Err(end)
    }
}

/// Waits for what there may be.
async fn ending(ended: &mut Option<tokio::task::JoinHandle<bool>>) {
    match ended {
        // Cancel-safe: the handle stays.
        Some(ended) => drop(ended.await),
        None => std::future::pending().await,
    }
}

/// What is done with the frames of the gateway.
struct Desk {
    frames: FrameSender,
    gateway: Arc<Gateway>,
    scope: Scope,
    /// The version that applies.
    config: Option<u64>,
}

impl Desk {
    async fn take(&mut self, frame: &Frame) -> Result<Option<RunnerConfig>, ConnectionError> {
        match frame.kind {
            FrameType::ConfigUpdate => {
                let update: ConfigUpdate = frame.read()?;
                if self.config.is_some_and(|applied| update.version < applied) {
                    return Err(ConnectionError::OldConfiguration(update.version));
                }
                if self.config.replace(update.version).is_none() {
                    tracing::info!("the gateway's runs are executed here");
                }
                self.gateway.set_clock(update.now);
                let ack = ConfigAck { version: update.version, applied: true };
                self.frames.send(&Frame::new(FrameType::ConfigAck, frame.id.clone(), &ack)).await?;
                return Ok(Some(update.config));
            }
            _ if self.config.is_none() && !matches!(frame.kind, FrameType::Pong | FrameType::Ping) => {
                return Err(ConnectionError::misplaced(frame, "came before `config_update`"));
            }
            FrameType::Result => self.gateway.answer(frame),
            FrameType::Message => self.begin(frame.read()?),
            FrameType::News => self.tell(frame.id.clone(), frame.read()?),
            FrameType::Release => {
                let OfLease { lease } = frame.read()?;
                self.gateway.release(lease);
            }
            FrameType::Pong => {
                if let Pong { now: Some(now) } = frame.read()? {
                    self.gateway.set_clock(now);
                }
            }
            FrameType::Ping => {
                self.frames.try_send(&Frame::new(FrameType::Pong, frame.id.clone(), &Pong { now: None }));
            }
            _ => return Err(ConnectionError::misplaced(frame, "is not one that a gateway sends after `welcome`")),
        }
        Ok(None)
    }

    fn begin(&self, assignment: Assignment) {
        let Assignment { lease, run } = assignment;
        let remote = Arc::new(Lent::new(Arc::clone(&self.gateway), lease));
        // Each lease has its own table: a task of an earlier lease of the same run speaks for itself alone.
        let runs = Runs::new(remote.surroundings(), self.scope.clone());
        self.gateway.lend(lease, run.clone(), runs.clone());
        self.scope.spawn(async move {
            if let Err(error) = runs.resume(&run).await {
                remote.report_rest(Some(error.to_string()));
            }
        });
    }

    fn tell(&self, id: String, news: News) {
        let News { lease, event } = news;
        let Some((run, runs)) = self.gateway.lent(lease) else { return };
        let frames = self.frames.clone();
        self.scope.spawn(async move {
            // News that do not fit are answered too: the gateway waits for no entry then.
            let _ = runs.tell(&run, event).await;
            let _ = frames.send(&Frame::new(FrameType::NewsAck, id, &OfLease { lease })).await;
        });
    }

    fn beat(&self, began: Instant, is_stopping: bool) {
        let status = match self.gateway.count() {
            _ if is_stopping => Status::Stopping,
            0 => Status::Ready,
            _ => Status::Running,
        };
        let beat = Heartbeat { status, uptime_secs: began.elapsed().as_secs() };
        self.frames.try_send(&Frame::new(FrameType::Heartbeat, "", &beat));
    }
}
