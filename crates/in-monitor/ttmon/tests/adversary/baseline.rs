//! Checks the limits without an attack. If this case fails, the results of the other cases mean nothing.

use ttmon_testing::until;

use crate::Case;
use crate::host::Host;
use crate::isolation::Pids;
use crate::watch::Watch;

pub(crate) const CASES: &[Case] = &[("unattacked_service_meets_the_limits", Pids::Private, unattacked)];

fn unattacked() {
    let host = Host::start();
    let watch = Watch::begin(&host);
    let samples = || crate::host::metric("ttmon_samples_total").unwrap_or_default();
    let before = samples();
    until("sampled three times", || samples() >= before + 3.0);
    watch.finish();
    host.gives_back();
}
