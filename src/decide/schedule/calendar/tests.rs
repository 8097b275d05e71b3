use rstest::rstest;

use super::*;

fn calendar(expression: &str, zone: &str) -> Calendar {
    Calendar::new(&[expression.to_owned()], Some(zone)).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The ticks after one time and until another, shown in the zone.
fn ticks(calendar: &Calendar, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let next = |last: &Timestamp| calendar.next(*last).filter(|tick| *tick <= until);
    std::iter::successors(next(&after), next).collect()
}

/// The ticks of a day as its clocks show them.
fn on(expression: &str, zone: &str, day: &str) -> Vec<String> {
    let calendar = calendar(expression, zone);
    let day: jiff::civil::Date = day.parse().unwrap();
    let begin = day.to_zoned(calendar.zone.clone()).unwrap();
    let end = day
        .tomorrow()
        .unwrap()
        .to_zoned(calendar.zone.clone())
        .unwrap();
    let just_before = |at: &jiff::Zoned| at.timestamp() - SECOND;
    let all = ticks(&calendar, just_before(&begin), just_before(&end));
    let shown = all.iter().map(|tick| tick.to_zoned(calendar.zone.clone()));
    shown
        .map(|tick| tick.strftime("%H:%M%:z").to_string())
        .collect()
}

/// In Berlin the clocks go from 02:00 to 03:00 on 28 March 2027, and from 03:00 to 02:00 on 31 October; in Lord Howe by
/// half an hour, from 02:00 to 02:30 on 3 October; in Santiago from 00:00 to 01:00 on 5 September.
/// Proves: P-schedule-time
#[rstest]
#[case::left_out("30 2 * * *", "Europe/Berlin", "2027-03-28", &["03:00+02:00"])]
#[case::left_out_beside_the_next("0,30 2-3 * * *", "Europe/Berlin", "2027-03-28",
    &["03:00+02:00", "03:30+02:00"])]
#[case::half_an_hour("15 2 * * *", "Australia/Lord_Howe", "2027-10-03", &["02:30+11:00"])]
#[case::midnight("0 0 * * *", "America/Santiago", "2027-09-05", &["01:00-03:00"])]
#[case::twice_on_the_wall("30 2 * * *", "Europe/Berlin", "2027-10-31", &["02:30+02:00"])]
#[case::twice_in_a_list("30 2,14 * * *", "Europe/Berlin", "2027-10-31",
    &["02:30+02:00", "14:30+01:00"])]
#[case::after_the_second("15 3 * * *", "Europe/Berlin", "2027-10-31", &["03:15+01:00"])]
fn an_hour_that_is_named_is_read_on_the_wall(
    #[case] expression: &str,
    #[case] zone: &str,
    #[case] day: &str,
    #[case] expected: &[&str],
) {
    assert_eq!(on(expression, zone, day), expected);
}

/// Proves: P-schedule-time
#[rstest]
#[case("@hourly", "2027-03-28", 23)]
#[case("@hourly", "2027-10-31", 25)]
#[case("*/10 * * * *", "2027-10-31", 150)]
#[case("*/10 * * * *", "2027-10-30", 144)]
fn an_hour_that_is_not_named_is_time_that_passes(
    #[case] expression: &str,
    #[case] day: &str,
    #[case] count: usize,
) {
    assert_eq!(on(expression, "Europe/Berlin", day).len(), count);
}

/// The latest tick is found from the end, whatever lies in between.
/// Proves: P-schedule-time
#[rstest]
#[case("17 2 * * *")]
#[case("* * 1-15 * *")]
#[case("0 12 29 2 *")]
#[case("*/7 * * * *")]
fn the_latest_tick_is_the_last_of_all(#[case] expression: &str) {
    let calendar = calendar(expression, "America/New_York");
    let begin = at("2028-01-20T00:00:00Z");
    for hours in [0, 1, 5, 24, 24 * 33, 24 * 90] {
        let until = begin + SignedDuration::from_hours(hours);
        let last = ticks(&calendar, begin, until).last().copied();
        assert_eq!(calendar.latest(begin, until), last, "{hours} h");
    }
}

/// Proves: P-schedule-time
#[test]
fn a_time_that_two_expressions_name_is_one_tick() {
    let both = ["0 * * * *".to_owned(), "0,30 6 * * *".to_owned()];
    let calendar = Calendar::new(&both, None).unwrap();
    let all = ticks(
        &calendar,
        at("2027-05-05T05:30:00Z"),
        at("2027-05-05T07:00:00Z"),
    );
    let expected = ["06:00", "06:30", "07:00"].map(|time| at(&format!("2027-05-05T{time}:00Z")));
    assert_eq!(all, expected);
}

/// Proves: P-schedule-time
#[rstest]
#[case::six_fields("0 17 2 * * *", "Invalid pattern")]
#[case::four_fields("17 2 * *", "Invalid pattern")]
#[case::a_zone_inside("TZ=UTC 17 2 * * *", "the time zone belongs into spec.timeZone")]
#[case::out_of_range("60 2 * * *", "out of bounds")]
#[case::never("0 0 30 2 *", "that time never comes")]
#[case::no_name("@fortnightly", "Pattern")]
fn what_is_no_schedule_is_refused_with_the_text(#[case] expression: &str, #[case] why: &str) {
    let error = Calendar::new(&[expression.to_owned()], None).unwrap_err();
    assert!(error.contains(why) && error.contains(expression), "{error}");
    assert!(error.starts_with("spec.schedules: "), "{error}");
}

#[test]
fn an_unknown_zone_is_named() {
    let error = Calendar::new(&["@daily".to_owned()], Some("Europe/Berln")).unwrap_err();
    let expected =
        r#"spec.timeZone: the IANA database has no "Europe/Berln"; Europe/Berlin would be one."#;
    assert_eq!(error, expected);
}

/// Every tick of 2027 and 2028 against another implementation: how many there are, and the sum of their minutes since
/// 1970, which differs with any other answer. By croniter on a wall clock without zones and Python's zoneinfo, with the
/// reading of clock changes that this module describes.
/// Proves: P-schedule-time
#[rstest]
#[case("Europe/Berlin", "30 2 * * *", 731, 22_299_165_450)]
#[case("Europe/Berlin", "0 0 * * *", 731, 22_299_055_860)]
#[case("Europe/Berlin", "15 1-3 * * *", 2193, 66_897_463_605)]
#[case("Europe/Berlin", "*/20 2,14 * * *", 4382, 133_675_066_680)]
#[case("Europe/Berlin", "0 9-17/2 * * MON-FRI", 2605, 79_466_447_400)]
#[case("Europe/Berlin", "0 0 13 * FRI", 127, 3_873_634_020)]
#[case("Europe/Berlin", "0 12 29 2 *", 1, 30_590_580)]
#[case("Europe/Berlin", "5 4 * * 0", 105, 3_203_187_705)]
#[case("Europe/Berlin", "59 23 31 12 *", 2, 61_536_838)]
#[case("Europe/Berlin", "*/10 * * * *", 105_264, 3_211_143_057_360)]
#[case("Europe/Berlin", "7 */6 * * *", 2924, 89_197_822_868)]
#[case("Europe/Berlin", "@hourly", 17_544, 535_190_070_960)]
#[case("America/New_York", "30 2 * * *", 731, 22_299_426_210)]
#[case("America/New_York", "0 0 * * *", 731, 22_299_316_500)]
#[case("America/New_York", "15 1-3 * * *", 2193, 66_898_245_645)]
#[case("America/New_York", "*/20 2,14 * * *", 4382, 133_676_710_080)]
#[case("America/New_York", "0 9-17/2 * * MON-FRI", 2605, 79_467_376_200)]
#[case("America/New_York", "0 0 13 * FRI", 127, 3_873_679_320)]
#[case("America/New_York", "0 12 29 2 *", 1, 30_590_940)]
#[case("America/New_York", "5 4 * * 0", 105, 3_203_225_145)]
#[case("America/New_York", "59 23 31 12 *", 2, 61_537_558)]
#[case("America/New_York", "*/10 * * * *", 105_264, 3_211_180_952_400)]
#[case("America/New_York", "7 */6 * * *", 2924, 89_198_865_428)]
#[case("America/New_York", "@hourly", 17_544, 535_196_386_800)]
#[case("Australia/Lord_Howe", "30 2 * * *", 731, 22_298_763_870)]
#[case("Australia/Lord_Howe", "0 0 * * *", 731, 22_298_654_220)]
#[case("Australia/Lord_Howe", "15 1-3 * * *", 2193, 66_896_258_745)]
#[case("Australia/Lord_Howe", "*/20 2,14 * * *", 4384, 133_732_844_540)]
#[case("Australia/Lord_Howe", "0 9-17/2 * * MON-FRI", 2605, 79_465_016_400)]
#[case("Australia/Lord_Howe", "0 0 13 * FRI", 127, 3_873_564_150)]
#[case("Australia/Lord_Howe", "0 12 29 2 *", 1, 30_589_980)]
#[case("Australia/Lord_Howe", "5 4 * * 0", 105, 3_203_129_985)]
#[case("Australia/Lord_Howe", "59 23 31 12 *", 2, 61_535_638)]
#[case("Australia/Lord_Howe", "*/10 * * * *", 105_264, 3_211_079_898_960)]
#[case("Australia/Lord_Howe", "7 */6 * * *", 2924, 89_196_216_308)]
#[case("Australia/Lord_Howe", "@hourly", 17_542, 535_118_532_840)]
#[case("America/Santiago", "30 2 * * *", 731, 22_299_385_470)]
#[case("America/Santiago", "0 0 * * *", 731, 22_299_275_940)]
#[case("America/Santiago", "15 1-3 * * *", 2193, 66_898_123_515)]
#[case("America/Santiago", "*/20 2,14 * * *", 4386, 133_797_847_920)]
#[case("America/Santiago", "0 9-17/2 * * MON-FRI", 2605, 79_467_231_600)]
#[case("America/Santiago", "0 0 13 * FRI", 127, 3_873_672_120)]
#[case("America/Santiago", "0 12 29 2 *", 1, 30_590_820)]
#[case("America/Santiago", "5 4 * * 0", 105, 3_203_219_265)]
#[case("America/Santiago", "59 23 31 12 *", 2, 61_537_318)]
#[case("America/Santiago", "*/10 * * * *", 105_264, 3_211_168_320_720)]
#[case("America/Santiago", "7 */6 * * *", 2922, 89_137_508_094)]
#[case("America/Santiago", "@hourly", 17_544, 535_194_281_520)]
#[case("Asia/Kolkata", "30 2 * * *", 731, 22_298_994_180)]
#[case("Asia/Kolkata", "0 0 * * *", 731, 22_298_884_530)]
#[case("Asia/Kolkata", "15 1-3 * * *", 2193, 66_896_949_645)]
#[case("Asia/Kolkata", "*/20 2,14 * * *", 4386, 133_795_500_180)]
#[case("Asia/Kolkata", "0 9-17/2 * * MON-FRI", 2605, 79_465_837_050)]
#[case("Asia/Kolkata", "0 0 13 * FRI", 127, 3_873_604_170)]
#[case("Asia/Kolkata", "0 12 29 2 *", 1, 30_590_310)]
#[case("Asia/Kolkata", "5 4 * * 0", 105, 3_203_163_075)]
#[case("Asia/Kolkata", "59 23 31 12 *", 2, 61_536_298)]
#[case("Asia/Kolkata", "*/10 * * * *", 105_264, 3_211_114_636_080)]
#[case("Asia/Kolkata", "7 */6 * * *", 2924, 89_197_137_548)]
#[case("Asia/Kolkata", "@hourly", 17_544, 535_185_334_080)]
fn the_ticks_of_two_years_are_those_of_another_implementation(
    #[case] zone: &str,
    #[case] expression: &str,
    #[case] count: usize,
    #[case] minutes: i64,
) {
    let calendar = calendar(expression, zone);
    let new_year = |year: i16| {
        let day = jiff::civil::date(year, 1, 1).to_zoned(calendar.zone.clone());
        day.unwrap().timestamp() - SECOND
    };
    let all = ticks(&calendar, new_year(2027), new_year(2029));
    let sum: i64 = all.iter().map(|tick| tick.as_second() / 60).sum();
    assert_eq!((all.len(), sum), (count, minutes));
}
