use catnip_base::{Distribution, Rng, Stream};

/// A Web page: the sizes in bytes of its objects, the HTML first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// At least one object.
    pub objects: Vec<u64>,
}

impl Page {
    /// All bytes of the page.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().sum()
    }
}

/// Makes pages from distributions of Web content (CAT-S14).
#[derive(Clone, Debug, PartialEq)]
pub struct PageGenerator {
    /// Size of the HTML, bytes.
    pub html_bytes: Distribution,
    /// Number of embedded images.
    pub images: Distribution,
    /// Size of an image, bytes.
    pub image_bytes: Distribution,
}

/// Where a user's pages come from.
#[derive(Clone, Debug, PartialEq)]
pub enum PageSource {
    /// These, each user in a random order of its own; then, if `endless`, again in another order.
    Known {
        /// All of them.
        pages: Vec<Page>,
        /// A user goes on and on.
        endless: bool,
    },
    /// Each one is drawn as a user asks for it, on and on.
    Drawn(PageGenerator),
}

/// More embedded objects than any page of the time had: a bound on what a heavy tail can ask for.
const MAX_IMAGES: f64 = 1000.0;
/// A terabyte: the same for sizes.
const MAX_OBJECT_BYTES: f64 = 1e12;

impl PageGenerator {
    /// `count` pages; the same seed gives the same pages.
    pub fn generate(&self, count: u32, seed: u64) -> Vec<Page> {
        let mut rng = Rng::new(seed, Stream::Workload(0));
        (0..count).map(|_| self.draw(&mut rng)).collect()
    }

    /// One page.
    pub fn draw(&self, rng: &mut Rng) -> Page {
        let html = whole_bytes(self.html_bytes.draw(rng));
        let images = self.images.draw(rng).round().clamp(0.0, MAX_IMAGES) as u32;
        let images = (0..images).map(|_| whole_bytes(self.image_bytes.draw(rng))).collect::<Vec<_>>();
        Page { objects: std::iter::once(html).chain(images).collect() }
    }
}

/// A size as it was drawn, in whole bytes and within bounds.
pub(super) fn whole_bytes(drawn: f64) -> u64 {
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
        assert_eq!(sizes(1e9).len(), 1001, "a bound on what a heavy tail can ask for");
    }
}
