//! The thread of a bus that is used from elsewhere.

use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use toolbus_proto::channel::Down;
use toolbus_proto::tool::Call;
use tracing::Dispatch;

use super::{BusHandle, Inner, ORDERS_MAX, Order};
use crate::bus::builder::runtime;
use crate::bus::{BuildError, Bus, BusBuilder, Route};
use crate::engine::calls::Inbox;
use crate::task::boxed;

/// What replies have to reach their readers once the backs are gone.
const LAST_REPLIES_PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn start(builder: BusBuilder) -> Result<BusHandle, BuildError> {
    let (orders, ordered) = mpsc::channel(ORDERS_MAX);
    let stop = Arc::new(Notify::new());
    let (end, ended) = watch::channel(());
    let (tell_opened, opened) = std_mpsc::sync_channel(1);
    let stopped = stop.clone();
    // What the program has set for this thread alone goes for its bus too.
    let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
    let thread = thread::Builder::new().name("toolbus".to_owned());
    let thread = thread.spawn(move || {
        // Dropped behind everything else, also by a panic.
        let _end = end;
        tracing::dispatcher::with_default(&dispatch, || {
            host(builder, ordered, &stopped, &tell_opened);
        });
    });
    let thread = thread.map_err(BuildError::Thread)?.thread().id();
    opened.recv().unwrap_or(Err(BuildError::Panicked))?;
    Ok(BusHandle(Arc::new(Inner { orders, stop, ended, thread })))
}

fn host(
    builder: BusBuilder,
    orders: mpsc::Receiver<Order>,
    stop: &Notify,
    opened: &std_mpsc::SyncSender<Result<(), BuildError>>,
) {
    // The thread that asked for the bus waits for this one word, so that it can always be said.
    let tell = |told| drop(opened.send(told));
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return tell(Err(error)),
    };
    runtime.block_on(async {
        match builder.open() {
            Ok(bus) => {
                tell(Ok(()));
                bus.scope.clone().enter_while(serve(bus, orders, stop)).await;
            }
            Err(error) => tell(Err(error)),
        }
    });
}

/// Carries out what is asked until the last handle is gone, or one says that it is enough.
async fn serve(bus: Bus, mut orders: mpsc::Receiver<Order>, stop: &Notify) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.notified() => break,
            Some(_) = running.join_next() => {}
            order = orders.recv() => match order {
                Some(order) => drop(running.spawn_local(boxed(carry_out(bus.clone(), order)))),
                None => break,
            },
        }
    }
    // Who still waits in the queue learns by this that there is no bus any more.
    drop(orders);
    bus.shutdown().await;
    let last_replies = async { while running.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_REPLIES_PATIENCE, last_replies).await;
}

async fn carry_out(bus: Bus, order: Order) {
    match order {
        Order::Call(call, mut answer) => {
            let (inbox, down) = Inbox::new();
            if answer.is_closed() {
                return;
            }
            let running = bus.lenient().start(*call, down);
            let outcome = tokio::select! {
                outcome = inbox.whole(running) => outcome,
                // The caller has stopped waiting, and by dropping its call we cancel it.
                () = answer.closed() => return,
            };
            let _ = answer.send(outcome);
        }
        Order::Stream(call, events) => stream(&bus, *call, &events).await,
        Order::Tools(mut answer) => tokio::select! {
            tools = bus.tools() => drop(answer.send(tools)),
            () = answer.closed() => {}
        },
    }
}

async fn stream(bus: &Bus, call: Call, events: &mpsc::Sender<Down>) {
    let (inbox, down) = Inbox::new();
    let running = bus.lenient().start(call, down);
    loop {
        let down = tokio::select! {
            down = inbox.next(&running) => down,
            () = events.closed() => return,
        };
        let is_done = matches!(down, Down::Done(_));
        if events.send(down).await.is_err() {
            return;
        }
        if is_done {
            return running.forget();
        }
    }
}
