use crate::record::Activity;
use catnip_base::{Distribution, Rng, Stream, Time};

/// Web page, as the sizes of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Sizes of the objects, at least one, bytes; the HTML comes first.
    pub objects: Vec<u64>,
}

impl Page {
    /// Returns the size of the page, bytes.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().sum()
    }
}

/// Generator of pages from distributions of Web content (CAT-S14).
#[derive(Clone, Debug, PartialEq)]
pub struct PageGenerator {
    /// Size of the HTML, bytes.
    pub html_bytes: Distribution,
    /// Number of embedded images.
    pub images: Distribution,
    /// Size of an image, bytes.
    pub image_bytes: Distribution,
}

/// Source of a user's pages.
#[derive(Clone, Debug, PartialEq)]
pub enum PageSource {
    /// List of pages, fetched by each user in a different random order.
    Known {
        /// Pages of the list.
        pages: Vec<Page>,
        /// True if users start over in another order after the last page.
        endless: bool,
    },
    /// Endless sequence of pages. Each page is drawn at random when a user starts to load it.
    Drawn(PageGenerator),
}

/// Record of an object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRecord {
    /// Number of the application.
    pub app: u32,
    /// Number of the page, from 0.
    pub page: u32,
    /// Number of the object, from 0 (the HTML).
    pub object: u32,
    /// Size of the object, bytes.
    pub bytes: u64,
    /// Time of the request.
    pub start: Time,
}

impl Activity for ObjectRecord {
    fn app(&self) -> u32 {
        self.app
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn tag(&self) -> Option<u64> {
        Some(tag_of(self.page, self.object))
    }
}

/// Record of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRecord {
    /// Number of the application.
    pub app: u32,
    /// Number of the page, from 0.
    pub page: u32,
    /// Size of the page, bytes.
    pub bytes: u64,
    /// Number of connections used.
    pub connections: u32,
    /// Start of the page load.
    pub start: Time,
}

impl Activity for PageRecord {
    fn app(&self) -> u32 {
        self.app
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Returns the tag of the request for an object of a page.
pub(super) fn tag_of(page: u32, object: u32) -> u64 {
    u64::from(page) << 32 | u64::from(object)
}

/// Returns the numbers of the page and of the object, both from 0, in the tag of a request or a response.
pub const fn object_of(tag: u64) -> (u32, u32) {
    ((tag >> 32) as u32, tag as u32)
}

/// Maximum number of embedded objects: a bound for heavy-tailed distributions. No page had more at the time of the papers.
const MAX_IMAGES: f64 = 1000.0;
/// Maximum size of an object, one terabyte: a bound for heavy-tailed distributions.
const MAX_OBJECT_BYTES: f64 = 1e12;

impl PageGenerator {
    /// Returns `count` pages; equal seeds give equal pages.
    pub fn generate(&self, count: u32, seed: u64) -> Vec<Page> {
        let mut rng = Rng::new(seed, Stream::Workload(0));
        (0..count).map(|_| self.draw(&mut rng)).collect()
    }

    /// Draws a page.
    pub fn draw(&self, rng: &mut Rng) -> Page {
        let html = round_to_bytes(self.html_bytes.draw(rng));
        let images = self.images.draw(rng).round().clamp(0.0, MAX_IMAGES) as u32;
        let images = (0..images).map(|_| round_to_bytes(self.image_bytes.draw(rng))).collect::<Vec<_>>();
        Page { objects: std::iter::once(html).chain(images).collect() }
    }
}

/// Rounds a drawn size to whole bytes within bounds.
pub(super) fn round_to_bytes(drawn: f64) -> u64 {
    drawn.round().clamp(1.0, MAX_OBJECT_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_pages_and_another_seed_others() {
        let generator = PageGenerator {
            html_bytes: Distribution::Lognormal { mu: 7.63, sigma: 1.001, maximum: f64::INFINITY },
            images: Distribution::Pareto { shape: 2.43, minimum: 1.0, maximum: 100.0 },
            image_bytes: Distribution::Lognormal { mu: 8.2, sigma: 1.36, maximum: f64::INFINITY },
        };
        assert_eq!(generator.generate(50, 1), generator.generate(50, 1));
        assert_ne!(generator.generate(50, 1), generator.generate(50, 2));
    }

    #[test]
    fn pages_have_as_many_images_as_were_drawn_and_sizes_of_whole_bytes() {
        let fixed = Distribution::Constant;
        let generator = |images| PageGenerator {
            html_bytes: fixed(99.6),
            images: fixed(images),
            image_bytes: fixed(0.2),
        };
        let sizes = |images| generator(images).generate(1, 1)[0].objects.clone();
        assert_eq!(sizes(0.0), [100]);
        assert_eq!(sizes(7.4), [100, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(sizes(1e9).len(), 1001, "a bound on the values of a heavy tail");
    }
}
