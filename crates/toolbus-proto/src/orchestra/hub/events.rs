//! Events: who wants which, and how they get there (`docs/protocols/orchestra.md` 10).

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;

use super::calls::Running;
use super::{Asker, Hub, PluginIndex, ToPlugin};
use crate::orchestra::Timestamp;
use crate::orchestra::envelope::response_body;
use crate::orchestra::structure::Struct;
use crate::orchestra::wire::{EventDelivery, Publish, Subscribe};
use crate::tool::CallerId;

/// Who wants events.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Vec<Subscription>);

#[derive(Debug)]
struct Subscription {
    subscriber: Subscriber,
    id: String,
    topic: String,
    filters: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscriber {
    /// Told by requests on our connection to it.
    Plugin(PluginIndex),
    /// Told on the stream of its subscription.
    Caller(Asker),
}

impl Subscriber {
    /// Two that are the same may replace each other's subscriptions.
    fn is_same(self, other: Subscriber) -> bool {
        match (self, other) {
            (Subscriber::Plugin(one), Subscriber::Plugin(other)) => one == other,
            (Subscriber::Caller(one), Subscriber::Caller(other)) => {
                one.connection == other.connection
            }
            _ => false,
        }
    }
}

impl Subscription {
    /// The topic matches exactly, and every filter equals a text of the payload.
    fn wants(&self, topic: &str, payload: Option<&Struct>) -> bool {
        let holds = |(name, value): (&String, &String)| {
            payload.and_then(|payload| payload.text(name)).as_ref() == Some(value)
        };
        self.topic == topic && self.filters.iter().all(holds)
    }
}

impl Subscriptions {
    /// The connection is gone, and its streams with it.
    pub(super) fn end_connection(&mut self, connection: CallerId) {
        self.0.retain(|subscription| match subscription.subscriber {
            Subscriber::Caller(asker) => asker.connection != connection,
            Subscriber::Plugin(_) => true,
        });
    }

    /// The subscriber no longer reads the stream of this subscription.
    pub(super) fn end_asker(&mut self, asker: Asker) {
        let gone = Subscriber::Caller(asker);
        self.0.retain(|subscription| subscription.subscriber != gone);
    }

    /// The plugin's process has gone.
    pub(super) fn end_plugin(&mut self, plugin: PluginIndex) {
        let gone = Subscriber::Plugin(plugin);
        self.0.retain(|subscription| subscription.subscriber != gone);
    }

    /// Takes out the subscription of this id; the stream it had, if any.
    fn take(&mut self, subscriber: Subscriber, id: &str) -> Option<Asker> {
        let is_it = |known: &Subscription| known.id == id && known.subscriber.is_same(subscriber);
        let at = self.0.iter().position(is_it)?;
        match self.0.remove(at).subscriber {
            Subscriber::Caller(asker) => Some(asker),
            Subscriber::Plugin(_) => None,
        }
    }
}

impl Hub {
    fn subscriber(&self, asker: Asker) -> Subscriber {
        match self.plugin_of(asker.connection) {
            Some(plugin) => Subscriber::Plugin(plugin),
            None => Subscriber::Caller(asker),
        }
    }

    pub(super) fn subscribe(&mut self, asker: Asker, subscribe: Subscribe) {
        let Subscribe { subscription_id: id, topic, filters, .. } = subscribe;
        let subscriber = self.subscriber(asker);
        if let Some(older) = self.subscriptions.take(subscriber, &id) {
            self.end(older);
        }
        match subscriber {
            Subscriber::Plugin(_) => self.answer_body(asker, Bytes::new()),
            Subscriber::Caller(_) => self.go_on(asker, Bytes::new()),
        }
        self.subscriptions.0.push(Subscription { subscriber, id, topic, filters });
    }

    pub(super) fn unsubscribe(&mut self, asker: Asker, id: &str) {
        let subscriber = self.subscriber(asker);
        let ended = self.subscriptions.take(subscriber, id);
        self.answer_body(asker, Bytes::new());
        if let Some(stream) = ended {
            self.end(stream);
        }
    }

    /// Answered at once; each subscriber gets it at most once, in order.
    pub(super) fn publish(
        &mut self,
        now: Instant,
        wall: Timestamp,
        asker: Asker,
        body: &Bytes,
        publish: Publish,
    ) {
        self.answer_body(asker, Bytes::new());
        let Publish { topic, event_type, payload, source_plugin, .. } = publish;
        let mut plugins: Vec<PluginIndex> = Vec::new();
        let mut deliveries = Vec::new();
        for subscription in &self.subscriptions.0 {
            if !subscription.wants(&topic, payload.as_ref()) {
                continue;
            }
            match subscription.subscriber {
                Subscriber::Plugin(plugin) => plugins.push(plugin),
                Subscriber::Caller(asker) => {
                    let delivery = EventDelivery {
                        subscription_id: subscription.id.clone(),
                        topic: topic.clone(),
                        event_type: event_type.clone(),
                        payload: payload.clone(),
                        source_plugin: source_plugin.clone(),
                        timestamp: Some(wall),
                        ..EventDelivery::default()
                    };
                    deliveries.push((asker, response_body(delivery)));
                }
            }
        }
        // What a manifest needs is a subscription like any other, without filters.
        for (index, plugin) in self.plugins.iter().enumerate() {
            if plugin.manifest.needs_events.contains(&topic) {
                plugins.push(index);
            }
        }
        plugins.sort_unstable();
        plugins.dedup();
        for plugin in plugins {
            self.tell_plugin(now, plugin, body.clone());
        }
        for (asker, delivery) in deliveries {
            self.go_on(asker, delivery);
        }
    }

    /// A plugin is told one event after the other, since streams have no order.
    fn tell_plugin(&mut self, now: Instant, index: PluginIndex, body: Bytes) {
        let plugin = &mut self.plugins[index];
        if !plugin.life.is_serving() {
            return;
        }
        if 0 < plugin.events.push(body) {
            let id = &plugin.config.id;
            let line = format!("plugin \"{id}\" takes events too slowly: the oldest is dropped");
            self.warn(line);
        }
        self.tell_next(now, index);
    }

    fn tell_next(&mut self, now: Instant, index: PluginIndex) {
        let plugin = &mut self.plugins[index];
        if plugin.is_told {
            return;
        }
        let Some(body) = plugin.events.pop() else { return };
        plugin.is_told = true;
        let timeout = self.settings.call_timeout;
        let ask = ToPlugin { method: "publish", body, timeout, is_stream: false };
        self.call(now, index, ask, Running::event(index));
    }

    pub(super) fn event_is_told(&mut self, now: Instant, plugin: PluginIndex) {
        self.plugins[plugin].is_told = false;
        if self.plugins[plugin].life.is_serving() {
            self.tell_next(now, plugin);
        }
    }
}
