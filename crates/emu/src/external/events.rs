use super::session::{Answer, AppProtocol, Awaited, answer_at_once};
use super::{ExternalPeers, FrameWorld};
use crate::datapath::frames::Egress;
use crate::external::fetch;
use catnip_base::Time;
use catnip_lab::Protocol;
use catnip_sim::app::AppEvent;
use catnip_sim::record::Reply;
use catnip_sim::{Message, ReceivedMessage, Watch};

/// Event for a program, and the reply to record before it.
pub(super) type StreamEvent = (Option<Reply>, AppEvent);

/// Handles the data that a client has received from an external server.
pub(super) fn receive_answers<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    id: u32,
    over: bool,
    events: &mut Vec<StreamEvent>,
) {
    let connection = &mut world.medium_mut().external.connections[id];
    let conn = connection.conn(id);
    let mut answered: Vec<(Option<Reply>, Message, u64, bool)> = Vec::new();
    let mut given_up = 0;
    match &mut connection.protocol {
        AppProtocol::Fetch(fetch) => {
            let persists = !over || fetch.end();
            if !persists {
                given_up = fetch.give_up();
            }
            let mut answers = Vec::new();
            while let Some(answer) = fetch.answer() {
                answers.push(answer);
            }
            let progress = fetch.progress();
            for answer in answers {
                let fetch::Answer { request, status, body_bytes, digest, whole } = answer;
                let reply = connection.reply(request.tag, status, body_bytes, digest, whole);
                answered.push((Some(reply), request, body_bytes, whole));
            }
            events.extend(progress.map(|tag| (None, AppEvent::Progress { conn, tag })));
        }
        AppProtocol::Echo(echo) => {
            while let Some((message, whole)) = echo.answer() {
                answered.push((None, message, message.asks, whole));
            }
            if over {
                given_up = echo.give_up();
            }
        }
        AppProtocol::Serve(_) | AppProtocol::Repeat(_) => {}
    }
    if !answered.is_empty() {
        connection.info.received = Some(now);
    }
    let tally = world.tally_mut();
    tally.waiting -= answered.len() + given_up;
    if given_up + answered.len() > 0 {
        tally.last_end = now;
    }
    for (reply, request, bytes, whole) in answered {
        tally.completed += u64::from(whole);
        let message = ReceivedMessage { bytes, tag: request.tag, asks: 0 };
        events.push((reply, AppEvent::Message { conn, message, whole }));
    }
}

/// Handles the data that a server has received from an external client.
pub(super) fn receive_requests<O: Egress, W: Watch>(
    world: &mut FrameWorld<O, W>,
    now: Time,
    id: u32,
    reset: bool,
    events: &mut Vec<StreamEvent>,
) {
    let ExternalPeers { connections, services, .. } = &mut world.medium_mut().external;
    let connection = &mut connections[id];
    let conn = connection.conn(id);
    if reset {
        connection.info.received.get_or_insert(now);
        return;
    }
    match &mut connection.protocol {
        AppProtocol::Serve(serving) => {
            let at = connection.socket.ends().0;
            let persists =
                services.get(connection.info.spec.tcp).speaks == Protocol::Http { persistent: true };
            let goes_on = |last: Option<&Awaited>| last.is_none_or(|last| last.persistent);
            while !connection.socket.is_closing()
                && goes_on(serving.awaited.back())
                && let Some(request) = serving.requests.read()
            {
                let document = request.path.and_then(|path| services.document(at, &path));
                let persistent = persists && request.persistent;
                let answer = match &document {
                    Some(document) if request.is_head => Answer::Header(document.clone()),
                    Some(document) => Answer::Document(document.clone()),
                    None => Answer::Missing,
                };
                serving.awaited.push_back(Awaited { answer, persistent });
                serving.status = if document.is_some() && serving.status <= 200 { 200 } else { 404 };
                if let Some(document) = document.filter(|_| !request.is_head) {
                    let message = ReceivedMessage { bytes: request.bytes, tag: 0, asks: document.bytes };
                    events.push((None, AppEvent::Message { conn, message, whole: true }));
                }
            }
            answer_at_once(serving, &mut connection.socket, now);
        }
        AppProtocol::Repeat(repeating) => {
            let bytes = (repeating.said.len() - repeating.announced) as u64;
            repeating.announced = repeating.said.len();
            if bytes > 0 {
                let message = ReceivedMessage { bytes, tag: 0, asks: bytes };
                events.push((None, AppEvent::Message { conn, message, whole: true }));
            }
        }
        AppProtocol::Fetch(_) | AppProtocol::Echo(_) => {}
    }
}
