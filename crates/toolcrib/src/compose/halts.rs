//! Halts in a gateway that runs beside the one that holds the home, over stdio: they are read from that one's state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolcrib_base::task::Scope;
use toolcrib_gateway::Gateway;
use toolcrib_store::{SharedState, StoreError};

/// How often they are looked at: a halt is in force everywhere within a second.
const LOOK: Duration = Duration::from_millis(500);

/// Has the halts of the gateway that holds this state folder in force here too, from before the first call on.
pub(super) async fn follow(gateway: &Arc<Gateway>, state: PathBuf, house: &Scope) {
    let mut shared = look(gateway, None, &state).await;
    let (gateway, mut stop) = (Arc::clone(gateway), house.stop_signal());
    house.spawn(async move {
        loop {
            tokio::select! {
                () = stop.stopped() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            shared = look(&gateway, shared.take(), &state).await;
        }
    });
}

/// One look. Gives what to look at the next time; nothing where it failed, so that it is opened again.
async fn look(gateway: &Arc<Gateway>, shared: Option<SharedState>, state: &Path) -> Option<SharedState> {
    let (gateway, state) = (Arc::clone(gateway), state.to_owned());
    let looked = tokio::task::spawn_blocking(move || -> Result<SharedState, StoreError> {
        let mut shared = shared.map_or_else(|| SharedState::open(&state), Ok)?;
        if let Some(halts) = shared.halts()? {
            gateway.path.halts.follow(halts);
        }
        Ok(shared)
    });
    match looked.await {
        Ok(Ok(shared)) => Some(shared),
        Ok(Err(error)) => {
            tracing::error!(%error, "the halts of the gateway that holds the home cannot be read; those known stay");
            None
        }
        // It panicked, or the process ends.
        Err(_) => None,
    }
}
