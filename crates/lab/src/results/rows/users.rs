//! Tables of pages, objects, keystrokes, videos and segments of users.

use super::Unit;
use super::row::{PAGE, reply, seconds_from};
use crate::results::activities::{ActivityRow, ActivityTable};
use crate::results::column::Columns;
use catnip_base::{Span, Time};
use catnip_sim::app::{
    EchoRecord, FetchRecord, LoadRecord, ObjectRecord, PageRecord, SegmentRecord, VideoRecord,
};

impl ActivityTable for PageRecord {
    const NAME: &'static str = "pages";
    const ABOUT: &'static str = "One row per page that a user has started to load: complete pages in order of completion, followed by incomplete ones.";
    const UNIT: Option<Unit> = Some(Unit::PAGE);

    fn number(&self) -> u64 {
        u64::from(self.page) + 1
    }

    fn start(&self) -> Time {
        self.start
    }

    fn columns<'a>(to: &mut impl Columns<ActivityRow<'a, Self>>) {
        to.integer("page", PAGE, |page| page.record.number());
        to.float("start_s", "Time at which the user requested its HTML.", |page| page.record.start.as_secs());
        to.float(
            "time_s",
            "Duration from the request to the last byte; NaN if that has not arrived.",
            |page| seconds_from(page.record.start, page.end),
        );
        to.integer("bytes", "Size of all objects of the page.", |page| page.record.bytes);
        to.integer("delivered_bytes", "Bytes of the page that have arrived.", |page| page.delivered);
        to.integer("connections", "Connections over which the page was fetched.", |page| {
            page.record.connections.into()
        });
    }
}

impl ActivityTable for ObjectRecord {
    const NAME: &'static str = "objects";
    const ABOUT: &'static str = "One row per requested object of a page: complete objects in order of completion, followed by incomplete ones.";

    fn number(&self) -> u64 {
        self.object.into()
    }

    fn start(&self) -> Time {
        self.start
    }

    fn columns<'a>(to: &mut impl Columns<ActivityRow<'a, Self>>) {
        to.integer("page", PAGE, |object| u64::from(object.record.page) + 1);
        to.integer("object", "Number of the object in its page; 0 is the HTML.", |object| {
            object.record.number()
        });
        to.integer("bytes", "Size of the object, as given by the scenario.", |object| object.record.bytes);
        to.float("start_s", "Time at which the client requested the object.", |object| {
            object.record.start.as_secs()
        });
        to.float(
            "time_s",
            "Duration from the request to the last byte; NaN if that has not arrived.",
            |object| seconds_from(object.record.start, object.end),
        );
        to.integer("delivered_bytes", "Bytes of the object that have arrived.", |object| object.delivered);
        reply(to, |object| (object.delivered, object.end < Time::NEVER), |object| object.reply);
    }
}

impl ActivityTable for LoadRecord {
    const NAME: &'static str = "loads";
    const ABOUT: &'static str =
        "One row per page of a recorded site that a browser has loaded, by its milestones.";

    fn number(&self) -> u64 {
        u64::from(self.page) + 1
    }

    fn start(&self) -> Time {
        self.start
    }

    fn columns<'a>(to: &mut impl Columns<ActivityRow<'a, Self>>) {
        let since = |at: fn(&Self) -> Time| {
            move |load: &ActivityRow<'a, Self>| at(&load.record).since(load.record.start).as_secs()
        };
        to.integer("page", PAGE, |load| load.record.number());
        to.float("start_s", "Time at which the browser began to load it.", |load| {
            load.record.start.as_secs()
        });
        to.float(
            "first_byte_s",
            "Time since then until the first byte of the first response.",
            since(|it| it.first_byte),
        );
        to.float(
            "render_s",
            "Time since then until all objects had arrived that block the first rendering; without such objects, until the first one had.",
            since(|it| it.render),
        );
        to.float(
            "load_s",
            "Time since then until the load event: the end of all objects for which it waits, and the browser's own time after it.",
            since(|it| it.load),
        );
        to.float(
            "byte_index_s",
            "Mean of the times since then of the ends of all objects, weighted by their sizes (ByteIndex).",
            |load| load.record.byte_index.as_secs(),
        );
        to.float("time_s", "Time since then until the last object had arrived.", |load| {
            seconds_from(load.record.start, load.end)
        });
    }
}

impl ActivityTable for FetchRecord {
    const NAME: &'static str = "fetches";
    const ABOUT: &'static str = "One row per object of a recorded site that a browser has received, by the parts of its fetch. What is left between the parts is time in which the request waited for a connection.";

    fn number(&self) -> u64 {
        self.object.into()
    }

    fn start(&self) -> Time {
        self.wanted
    }

    fn columns<'a>(to: &mut impl Columns<ActivityRow<'a, Self>>) {
        to.integer("page", PAGE, |fetch| u64::from(fetch.record.page) + 1);
        to.integer("object", "Number of the object in its page; 0 is the HTML.", |fetch| {
            fetch.record.number()
        });
        to.integer("origin", "Number of the origin in the recording, from 0.", |fetch| {
            fetch.record.origin.into()
        });
        to.integer("connection", "Number of the connection among all of the run.", |fetch| {
            fetch.record.connection.into()
        });
        to.text("http", "Version of HTTP: 1.1 or 2.", |fetch| fetch.record.version.name().into());
        to.integer("bytes", "Size of the response, as recorded.", |fetch| fetch.record.bytes);
        to.float("start_s", "Time from which on the browser wanted the object.", |fetch| {
            fetch.record.wanted.as_secs()
        });
        to.float("look_up_s", "Time that the request waited for the look-up of the name.", |fetch| {
            fetch.record.look_up.as_secs()
        });
        to.float(
            "connect_s",
            "Time that it waited then for the connection of which it is the first request.",
            |fetch| fetch.record.connect.as_secs(),
        );
        to.float("tls_s", "Time that it waited then for the handshake of TLS.", |fetch| {
            fetch.record.tls.as_secs()
        });
        to.float("sent_s", "Time from `start_s` until the request was sent.", |fetch| {
            fetch.record.sent.since(fetch.record.wanted).as_secs()
        });
        to.float(
            "first_byte_s",
            "Time from `start_s` until the first byte of the response had arrived.",
            |fetch| fetch.record.first_byte.since(fetch.record.wanted).as_secs(),
        );
        to.float("time_s", "Time from `start_s` until its last byte had arrived.", |fetch| {
            seconds_from(fetch.record.wanted, fetch.end)
        });
    }
}

impl ActivityTable for EchoRecord {
    const NAME: &'static str = "echoes";
    const ABOUT: &'static str = "One row per keystroke of a Telnet user: echoed keystrokes in the order of their echoes, followed by those without an echo.";
    const UNIT: Option<Unit> = Some(Unit::KEYSTROKE);

    fn number(&self) -> u64 {
        self.number
    }

    fn start(&self) -> Time {
        self.start
    }

    fn columns<'a>(to: &mut impl Columns<ActivityRow<'a, Self>>) {
        to.integer("number", "Number of the keystroke of its user, from 0.", |echo| echo.record.number);
        to.float("start_s", "Time of the keystroke.", |echo| echo.record.start.as_secs());
        to.float(
            "time_s",
            "Duration from the keystroke to the last byte of the echo; NaN if that has not arrived.",
            |echo| seconds_from(echo.record.start, echo.end),
        );
    }
}

impl ActivityTable for VideoRecord {
    const NAME: &'static str = "videos";
    const ABOUT: &'static str = "One row per video that a user has started: videos played to their ends in the order of these, followed by the others.";

    fn number(&self) -> u64 {
        self.number
    }

    fn start(&self) -> Time {
        self.start
    }

    fn columns<'a>(to: &mut impl Columns<ActivityRow<'a, Self>>) {
        to.integer("video", "Number of the video of its user, from 0.", |video| video.record.number);
        to.float("start_s", "Time of the first request.", |video| video.record.start.as_secs());
        to.float(
            "startup_s",
            "Time from the first request until the client began to play; NaN if it did not.",
            |video| video.record.startup.map_or(f64::NAN, Span::as_secs),
        );
        to.integer(
            "stalls",
            "Number of times at which playing stopped because nothing was fetched ahead.",
            |video| video.record.stalls.into(),
        );
        to.float("stalled_s", "Duration of the stalls that have ended.", |video| {
            video.record.stalled.as_secs()
        });
        to.integer("segments", "Number of fetched segments.", |video| video.record.segments.into());
        to.float(
            "rate_mbps",
            "Size of the fetched segments divided by the time during which they were fetched; NaN without any.",
            |video| 8e-6 * video.record.fetched_bytes as f64 / video.record.fetching.as_secs(),
        );
        to.float(
            "mean_rate_mbps",
            "Mean rate of the fetched segments in the video: their size divided by their playing time; NaN without any.",
            |video| 8e-6 * video.record.fetched_bytes as f64 / video.record.fetched.as_secs(),
        );
        to.integer("switches", "Number of segments with another rate than the segment before.", |video| {
            video.record.switches.into()
        });
        to.float(
            "time_s",
            "Duration from the first request to the end of the video; NaN if that has not come.",
            |video| seconds_from(video.record.start, video.end),
        );
    }
}

impl ActivityTable for SegmentRecord {
    const NAME: &'static str = "segments";
    const ABOUT: &'static str = "One row per requested segment of a video: complete segments in order of completion, followed by incomplete ones.";
    const UNIT: Option<Unit> = Some(Unit::SEGMENT);

    fn number(&self) -> u64 {
        self.number
    }

    fn start(&self) -> Time {
        self.start
    }

    fn columns<'a>(to: &mut impl Columns<ActivityRow<'a, Self>>) {
        to.integer("number", "Number of the segment among all segments of its user, from 0.", |segment| {
            segment.record.number
        });
        to.integer("bytes", "Size of the segment.", |segment| segment.record.bytes);
        to.float("rate_mbps", "Rate in the video: the size divided by the playing time.", |segment| {
            segment.record.rate.bits_per_second() as f64 / 1e6
        });
        to.float("start_s", "Time of the request.", |segment| segment.record.start.as_secs());
        to.float(
            "time_s",
            "Duration from the request to the last byte; NaN if that has not arrived.",
            |segment| seconds_from(segment.record.start, segment.end),
        );
        to.integer("delivered_bytes", "Bytes of the segment that have arrived.", |segment| segment.delivered);
    }
}
