package lock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Probe gathers what the mutexes of one name report. It is a [prometheus.Collector];
// probes of different names can be registered side by side. All series exist from the
// start:
//
//	gapless_lock_acquisitions_total{lock,op}  how often a mutex was taken
//	gapless_lock_contended_total{lock,op}     how often it was taken by another at the time
//	gapless_lock_wait_seconds{lock,op}        how long these had to wait; nobody else is counted
//	gapless_lock_hold_seconds{lock,op}        how long it was held, of 1 hold in 16
//	gapless_lock_waiters{lock}                how many wait at the moment
//
// The sum and the count of the holds are to be multiplied by 16, or by acquisitions_total
// over their own count, which is the exact ratio.
type Probe struct {
	phases       atomic.Uint32
	acquisitions [ops]prometheus.Counter
	contended    [ops]prometheus.Counter
	wait, hold   [ops]prometheus.Observer
	waiters      prometheus.Gauge
	all          []prometheus.Collector
}

// NewProbe returns a probe for the mutexes of a name, such as "store".
func NewProbe(name string) *Probe {
	p := new(Probe)
	label := prometheus.Labels{"lock": name}
	counter := func(metric, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "gapless", Subsystem: "lock", Name: metric, Help: help, ConstLabels: label,
		}, []string{"op"})
	}
	seconds := func(metric, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "gapless", Subsystem: "lock", Name: metric, Help: help, ConstLabels: label,
			Buckets:                     []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
		}, []string{"op"})
	}
	acquisitions := counter("acquisitions_total", "How often the lock was taken.")
	contended := counter("contended_total", "How often the lock was wanted while another had it.")
	wait := seconds("wait_seconds", "How long those waited who did not get the lock at once. Its rate of sum is the mean number of waiters.")
	hold := seconds("hold_seconds", "How long the lock was held; 1 hold in 16 of each operation is measured: multiply sum and count by 16.")
	p.waiters = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "gapless", Subsystem: "lock", Name: "waiters", Help: "How many wait for the lock.", ConstLabels: label,
	})
	for op := range ops {
		p.acquisitions[op] = acquisitions.WithLabelValues(op.String())
		p.contended[op] = contended.WithLabelValues(op.String())
		p.wait[op] = wait.WithLabelValues(op.String())
		p.hold[op] = hold.WithLabelValues(op.String())
	}
	p.all = []prometheus.Collector{acquisitions, contended, wait, hold, p.waiters}
	return p
}

// waitFor takes a mutex that another has, and returns how long that took.
func (p *Probe) waitFor(mu *sync.Mutex, op Op) time.Duration {
	p.contended[op].Inc()
	p.waiters.Inc()
	begun := time.Now()
	mu.Lock()
	waited := max(time.Since(begun), 1)
	p.waiters.Dec()
	return waited
}

// Describe implements [prometheus.Collector].
func (p *Probe) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range p.all {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (p *Probe) Collect(ch chan<- prometheus.Metric) {
	for _, c := range p.all {
		c.Collect(ch)
	}
}
