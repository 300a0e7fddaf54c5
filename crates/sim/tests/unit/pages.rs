//! Tests of Web pages with randomly drawn HTML sizes, numbers of images and image sizes.

use catnip_base::Distribution;
use catnip_base::{Rng, Stream};
use catnip_sim::app::{Page, PageGenerator};

fn pages(html: f64, images: Distribution, image: f64) -> Vec<Page> {
    let (html_bytes, image_bytes) = (Distribution::Constant(html), Distribution::Constant(image));
    PageGenerator { html_bytes, images, image_bytes }.generate(200, 1)
}

#[test]
fn a_page_is_its_html_and_as_many_images_as_were_drawn() {
    let page = &pages(5000.0, Distribution::Constant(3.0), 700.0)[0];
    assert_eq!(page.objects, [5000, 700, 700, 700]);
    assert_eq!(page.bytes(), 7100);
    assert_eq!(pages(5000.0, Distribution::Constant(0.0), 700.0)[0].objects, [5000]);
}

#[test]
fn images_are_drawn_between_html_and_sizes_and_rounded() {
    let images = Distribution::Uniform { minimum: 0.0, maximum: 9.0 };
    // Each page draws one random number, since constants draw none.
    let mut rng = Rng::new(1, Stream::Workload(0));
    for page in pages(5000.0, images.clone(), 700.0) {
        assert_eq!(page.objects.len() - 1, images.draw(&mut rng).round() as usize);
    }
    assert_eq!(pages(5000.0, Distribution::Constant(2.5), 700.0)[0].objects.len(), 1 + 3);
}

#[test]
fn a_heavy_tail_asks_for_a_thousand_images_at_most_and_a_light_one_for_none() {
    assert_eq!(pages(1.0, Distribution::Constant(1e9), 1.0)[0].objects.len(), 1 + 1000);
    assert_eq!(pages(1.0, Distribution::Constant(-5.0), 1.0)[0].objects.len(), 1);
}

#[test]
fn an_object_has_a_byte_at_least_and_a_terabyte_at_most() {
    assert_eq!(pages(0.2, Distribution::Constant(1.0), 1e20)[0].objects, [1, 1_000_000_000_000]);
}
