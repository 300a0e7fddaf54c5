use super::path_file::PathFile;
use catnip_base::keywords;
use catnip_base::notation::did_you_mean;
use std::collections::BTreeMap;

keywords! {
    /// Path with a name: rates and round-trip time of a kind of access, as tools for Web performance have them, without losses.
    pub enum LinkProfile {
        /// 49 and 30 kbit/s, 120 ms.
        DialUp = ("dial-up", "49 kbit/s down, 30 kbit/s up, 120 ms round trip (WebPageTest, 56K Dial-Up)"),
        /// 240 and 200 kbit/s, 840 ms.
        Edge = ("edge", "240 kbit/s down, 200 kbit/s up, 840 ms (WebPageTest, Edge)"),
        /// 280 and 256 kbit/s, 800 ms.
        TwoG = ("2g", "280 kbit/s down, 256 kbit/s up, 800 ms (WebPageTest, 2G)"),
        /// 400 kbit/s, 400 ms.
        Slow3G = ("slow-3g", "400 kbit/s, 400 ms (WebPageTest, 3G Slow; DevTools, 3G)"),
        /// 700 kbit/s, 300 ms.
        Regular3G = ("regular-3g", "700 kbit/s, 300 ms (Lighthouse, mobileRegular3G)"),
        /// 1600 and 768 kbit/s, 300 ms.
        ThreeG = ("3g", "1600 kbit/s down, 768 kbit/s up, 300 ms (WebPageTest, 3G)"),
        /// 1600 and 768 kbit/s, 150 ms.
        Fast3G = ("fast-3g", "1600 kbit/s down, 768 kbit/s up, 150 ms (WebPageTest, 3G Fast)"),
        /// 1638.4 and 750 kbit/s, 150 ms.
        Slow4G = ("slow-4g", "1638.4 kbit/s down, 750 kbit/s up, 150 ms (Lighthouse, mobileSlow4G)"),
        /// 9 Mbit/s, 170 ms.
        FourG = ("4g", "9 Mbit/s, 170 ms (WebPageTest, 4G)"),
        /// 9 and 1.5 Mbit/s, 60 ms.
        Fast4G = ("fast-4g", "9 Mbit/s down, 1.5 Mbit/s up, 60 ms (DevTools, Fast 4G)"),
        /// 10.24 Mbit/s, 40 ms.
        Dense4G = ("dense-4g", "10.24 Mbit/s, 40 ms (Lighthouse, desktopDense4G)"),
        /// 12 Mbit/s, 70 ms.
        Lte = ("lte", "12 Mbit/s, 70 ms (WebPageTest, LTE)"),
        /// 1.5 Mbit/s and 384 kbit/s, 50 ms.
        Dsl = ("dsl", "1.5 Mbit/s down, 384 kbit/s up, 50 ms (WebPageTest, DSL)"),
        /// 5 and 1 Mbit/s, 28 ms.
        Cable = ("cable", "5 Mbit/s down, 1 Mbit/s up, 28 ms (WebPageTest, Cable)"),
        /// 20 and 5 Mbit/s, 4 ms.
        Fios = ("fios", "20 Mbit/s down, 5 Mbit/s up, 4 ms (WebPageTest, FIOS)"),
        /// 25 and 3 Mbit/s, 600 ms.
        Satellite = ("satellite", "25 Mbit/s down, 3 Mbit/s up, 600 ms (a geostationary satellite: 480 ms of light, and access)"),
    }
}

impl LinkProfile {
    /// Returns the path of the profile with this name, or what `read` returns for the file with this name.
    pub fn or_file(name: &str, read: impl FnOnce() -> Result<PathFile, String>) -> Result<PathFile, String> {
        if let Ok(profile) = name.parse::<Self>() {
            return Ok(profile.path());
        }
        read().map_err(|problem| {
            let is_name = !name.contains(['.', '/']);
            let names = Self::ALL.iter().map(|profile| profile.name());
            let known = if is_name { did_you_mean(name, names) } else { String::new() };
            format!("{problem}{known}")
        })
    }

    /// Returns the rates down and up, kbit/s, and the round-trip time, milliseconds.
    fn numbers(self) -> (f64, f64, u32) {
        match self {
            Self::DialUp => (49.0, 30.0, 120),
            Self::Edge => (240.0, 200.0, 840),
            Self::TwoG => (280.0, 256.0, 800),
            Self::Slow3G => (400.0, 400.0, 400),
            Self::Regular3G => (700.0, 700.0, 300),
            Self::ThreeG => (1600.0, 768.0, 300),
            Self::Fast3G => (1600.0, 768.0, 150),
            Self::Slow4G => (1638.4, 750.0, 150),
            Self::FourG => (9000.0, 9000.0, 170),
            Self::Fast4G => (9000.0, 1500.0, 60),
            Self::Dense4G => (10_240.0, 10_240.0, 40),
            Self::Lte => (12_000.0, 12_000.0, 70),
            Self::Dsl => (1500.0, 384.0, 50),
            Self::Cable => (5000.0, 1000.0, 28),
            Self::Fios => (20_000.0, 5000.0, 4),
            Self::Satellite => (25_000.0, 3000.0, 600),
        }
    }

    /// Returns the path, with the client at its beginning: half of the round trip in each direction.
    pub fn path(self) -> PathFile {
        let (down, up, round_trip_ms) = self.numbers();
        let delay = format!("{}us", round_trip_ms * 500);
        let wire = |rate: f64| BTreeMap::from([("rate", format!("{rate}kbit")), ("delay", delay.clone())]);
        PathFile { wires: [wire(up), wire(down)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_has_the_numbers_that_its_description_says() {
        for &profile in LinkProfile::ALL {
            let (down, up, round_trip_ms) = profile.numbers();
            let (_, about) = profile.usage();
            let says = |kbit: f64| {
                about.contains(&format!("{kbit} kbit/s"))
                    || about.contains(&format!("{} Mbit/s", kbit / 1000.0))
            };
            let has_time = about.contains(&format!(" {round_trip_ms} ms"));
            assert!(says(down) && says(up) && has_time, "{about}");
        }
    }

    #[test]
    fn the_client_is_at_the_beginning_and_each_direction_has_half_of_the_round_trip() {
        let [up, down] = LinkProfile::Cable.path().wires;
        assert_eq!((up["rate"].as_str(), down["rate"].as_str()), ("1000kbit", "5000kbit"));
        assert_eq!([&up["delay"], &down["delay"]], ["14000us", "14000us"]);
    }
}
