package refserver

import (
	"regexp"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// runtimeMetrics are those of the Go runtime that say whether a lock, the scheduler or
// the collector of garbage is what time is lost to.
const runtimeMetrics = `^/(sync/mutex/wait/total:seconds|sched/latencies:seconds|sched/goroutines.*|sched/threads.*|gc/pauses:seconds|sched/pauses/.*|cpu/classes/.*)$`

// ProcessMetrics registers what concerns the process and not a [Handler], once for
// each registry: gapless_build_info with the version given, and the metrics of the
// process and of the Go runtime, time spent waiting for mutexes among them. It
// registers all of them or none.
func ProcessMetrics(to prometheus.Registerer, version string) error {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "gapless_build_info", Help: "Always 1; its labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	return register(to, []prometheus.Collector{
		build,
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(runtimeMetrics)},
		)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	})
}
