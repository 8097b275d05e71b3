//! Registers the catalogue's metrics, with every known combination of labels at zero, so that a rate is correct from
//! the first event on.

use std::fmt::Debug;

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family as Series, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::catalogue::{Kind, Label, Metric};

/// Storage of a gauge or a counter of seconds.
pub(crate) type Bits = std::sync::atomic::AtomicU64;
/// A gauge of seconds.
pub(crate) type Seconds = Gauge<f64, Bits>;
/// A counter of seconds.
pub(crate) type CountedSeconds = Counter<f64, Bits>;

/// The labels of one series.
type Labels = Vec<(&'static str, String)>;

/// Constructor of a declared metric.
#[derive(Clone, Debug)]
pub(crate) struct New(&'static Metric);

impl MetricConstructor<Counter> for New {
    fn new_metric(&self) -> Counter {
        Counter::default()
    }
}

impl MetricConstructor<CountedSeconds> for New {
    fn new_metric(&self) -> CountedSeconds {
        Counter::default()
    }
}

impl MetricConstructor<Gauge> for New {
    fn new_metric(&self) -> Gauge {
        Gauge::default()
    }
}

impl MetricConstructor<Seconds> for New {
    fn new_metric(&self) -> Seconds {
        Gauge::default()
    }
}

impl MetricConstructor<Histogram> for New {
    fn new_metric(&self) -> Histogram {
        let Kind::Histogram(buckets) = self.0.kind else {
            return Histogram::new([]);
        };
        Histogram::new(buckets.iter().copied())
    }
}

/// The series of one metric with labels.
#[derive(Clone)]
pub(crate) struct Family<M> {
    metric: &'static Metric,
    series: Series<Labels, M, New>,
}

impl<M> Family<M>
where
    New: MetricConstructor<M>,
    M: EncodeMetric + TypedMetric + Clone + Debug + Send + Sync + 'static,
{
    /// Registers the metric and its known series.
    pub(crate) fn new(registry: &mut Registry, metric: &'static Metric) -> Self {
        let series = Series::new_with_constructor(New(metric));
        registry.register(family_name(metric), metric.help, series.clone());
        let family = Self { metric, series };
        for values in combinations(metric.labels) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let _ = family.of(&values);
        }
        family
    }

    /// The series with these label values, in the order of the declaration.
    pub(crate) fn of(&self, values: &[&str]) -> M {
        self.series.get_or_create_owned(&self.labels(values))
    }

    fn labels(&self, values: &[&str]) -> Labels {
        debug_assert_eq!(
            values.len(),
            self.metric.labels.len(),
            "{}",
            self.metric.name
        );
        let names = self.metric.labels.iter().map(|label| label.name);
        names.zip(values.iter().map(|v| (*v).to_owned())).collect()
    }
}

/// Registers a metric without labels.
pub(crate) fn single<M>(registry: &mut Registry, metric: &'static Metric) -> M
where
    New: MetricConstructor<M>,
    M: EncodeMetric + Clone + Debug + Send + Sync + 'static,
{
    let one = New(metric).new_metric();
    registry.register(family_name(metric), metric.help, one.clone());
    one
}

/// `OpenMetrics` names a counter without the suffix that its series have.
fn family_name(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => metric.name.strip_suffix("_total").unwrap_or(metric.name),
        Kind::Gauge | Kind::Histogram(_) => metric.name,
    }
}

/// All combinations of the known label values.
fn combinations(labels: &[Label]) -> Vec<Vec<String>> {
    labels.iter().fold(vec![Vec::new()], |begun, label| {
        let with = |values: &Vec<String>| {
            let values = values.clone();
            label.known.iter().map(move |known| {
                let mut values = values.clone();
                values.push((*known).to_owned());
                values
            })
        };
        begun.iter().flat_map(with).collect()
    })
}

/// Value of a gauge that counts.
pub(crate) fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
