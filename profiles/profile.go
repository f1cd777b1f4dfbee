// Package profiles reads the named recipes of a run.
//
// A profile is a YAML file. The loader is strict: whatever it does not
// understand, or what contradicts itself, is an error with its position and
// with what was probably meant, and all complaints come at once. Values are
// layered: defaults, then the profile it extends, then the profile, then the
// flags, which the command applies to the returned struct (see [Profile.Mark]).
//
// The package imports nothing else of this module.
package profiles

import "time"

// A Profile is the recipe of one run. [Default] gives the value of every field
// that a file leaves out.
type Profile struct {
	// Name is the built-in name or the path the profile was loaded from.
	Name string `yaml:"-" jsonschema:"-"`

	Version    int        `yaml:"version" jsonschema:"description=version of this format: 1"`
	About      string     `yaml:"about" jsonschema:"description=one line: what the run proves"`
	Extends    string     `yaml:"extends" jsonschema:"description=built-in name or path; maps merge and lists replace"`
	Target     Target     `yaml:"target" jsonschema:"description=the system under test; no url and no exec: the reference server"`
	Server     Server     `yaml:"server" jsonschema:"description=settings of the reference server; an error with target.url or target.exec"`
	Load       LoadModel  `yaml:"load" jsonschema:"description=streams (and calls) or rate and duration or stages"`
	Calls      []Call     `yaml:"calls" jsonschema:"description=what is called; drawn by weight"`
	Emit       Emit       `yaml:"emit" jsonschema:"description=what the tool emit sends per call"`
	Faults     Faults     `yaml:"faults" jsonschema:"description=what hurts and where"`
	Resume     Resume     `yaml:"resume" jsonschema:"description=how the load generator resumes a stream"`
	Judge      Judge      `yaml:"judge" jsonschema:"description=what the target promises and how it is checked"`
	Reach      Reach      `yaml:"reach" jsonschema:"description=what the run must have met at least; less is inconclusive"`
	Thresholds Thresholds `yaml:"thresholds" jsonschema:"description=limits on figures by name of the figure"`
	History    History    `yaml:"history" jsonschema:"description=the history that a saved run keeps"`

	explicit map[string]bool
}

// Target says what is tested and how it is reached.
type Target struct {
	URL          string            `yaml:"url"`
	Exec         string            `yaml:"exec" jsonschema:"description=command that starts the target"`
	ReadyTimeout Duration          `yaml:"ready_timeout" jsonschema:"description=with exec: how long initialize may take to answer"`
	Dialect      string            `yaml:"dialect" jsonschema:"enum=resume,enum=streams,enum=umcp,enum=modern"`
	Transport    string            `yaml:"transport" jsonschema:"enum=http,enum=ws,enum=stdio"`
	Protocol     Protocol          `yaml:"protocol" jsonschema:"description=revision of MCP; empty: by dialect"`
	Headers      map[string]string `yaml:"headers"`
	Token        Secret            `yaml:"token" jsonschema:"description=bearer token from one of env and file and command"`
	OAuth        OAuth             `yaml:"oauth" jsonschema:"description=OAuth 2 client credentials instead of a token"`
	TLS          TLS               `yaml:"tls"`
	HTTPProxy    string            `yaml:"http_proxy" jsonschema:"description=env or none or a URL"`
	HTTP         string            `yaml:"http" jsonschema:"enum=auto,enum=1.1,enum=2,description=version of HTTP; auto: 1.1 unless the target speaks 2 alone"`
	MaxRate      Rate              `yaml:"max_rate" jsonschema:"description=starts per second at most; 0: unlimited on loopback and 10/s elsewhere"`
	PID          int               `yaml:"pid" jsonschema:"minimum=0,description=process of the target; with exec: the one that was started"`
}

// A Secret says where something secret comes from; at most one field is set. It is
// never written down itself.
type Secret struct {
	Env     string   `yaml:"env,omitempty"`
	File    string   `yaml:"file,omitempty"`
	Command []string `yaml:"command,omitempty"`
}

// sources counts the places that are named.
func (s Secret) sources() int {
	n := 0
	for _, set := range []bool{s.Env != "", s.File != "", len(s.Command) > 0} {
		if set {
			n++
		}
	}
	return n
}

// OAuth says where tokens are had by client credentials (RFC 6749 §4.4).
type OAuth struct {
	TokenURL string   `yaml:"token_url,omitempty"`
	ClientID string   `yaml:"client_id,omitempty"`
	Secret   Secret   `yaml:"client_secret,omitempty"`
	Scopes   []string `yaml:"scopes,omitempty"`
}

// TLS names the files for https targets.
type TLS struct {
	CA       string `yaml:"ca"`
	Cert     string `yaml:"cert"`
	Key      string `yaml:"key"`
	Insecure bool   `yaml:"insecure"`
}

// Server configures the reference server.
type Server struct {
	Store      string   `yaml:"store" jsonschema:"description=memory or none or bbolt:FILE or nats[:URL],pattern=^(memory|none|bbolt:.+|nats(:.+)?)$"`
	Delivery   string   `yaml:"delivery" jsonschema:"description=a connection follows its log or is replayed in passes and then attached,enum=follow,enum=handoff"`
	Lock       string   `yaml:"lock" jsonschema:"description=which streams share the locks of store and delivery,enum=stream,enum=session,enum=global"`
	Retry      Duration `yaml:"retry" jsonschema:"description=reconnection time that the server announces"`
	OnConflict string   `yaml:"on_conflict" jsonschema:"enum=takeover,enum=409"`
	Defect     string   `yaml:"defect" jsonschema:"description=bug planted on purpose: a code and maybe settings"`
	Limits     Limits   `yaml:"limits"`
}

// Limits bounds the event store of the reference server.
type Limits struct {
	Events  int  `yaml:"events" jsonschema:"minimum=1,description=events kept per stream"`
	Bytes   Size `yaml:"bytes" jsonschema:"description=bytes kept per session"`
	Streams int  `yaml:"streams" jsonschema:"minimum=1,description=streams kept"`
}

// LoadModel is the shape of the load: closed (Streams, Calls) or open (Rate and
// Duration, or Stages).
type LoadModel struct {
	Streams    int      `yaml:"streams" jsonschema:"minimum=0,description=closed model: open at once"`
	Calls      int      `yaml:"calls" jsonschema:"minimum=0,description=closed model: calls in all; 0: as many as streams"`
	Rate       Rate     `yaml:"rate" jsonschema:"description=open model: starts per second"`
	Duration   Duration `yaml:"duration" jsonschema:"description=open model: how long"`
	Stages     []Stage  `yaml:"stages" jsonschema:"description=open model: rates reached one after the other; linear between"`
	MaxOpen    int      `yaml:"max_open" jsonschema:"minimum=1"`
	Ramp       Duration `yaml:"ramp" jsonschema:"description=closed model: the first streams start within this time"`
	Hold       bool     `yaml:"hold" jsonschema:"description=nothing is emitted until all streams are open"`
	Sessions   int      `yaml:"sessions" jsonschema:"minimum=0,description=sessions that share the streams; 0: one per 10"`
	GetStreams int      `yaml:"get_streams" jsonschema:"minimum=0,description=standalone GET streams per session"`
	Cancel     Percent  `yaml:"cancel" jsonschema:"description=share of the calls that the client cancels"`
	Control    int      `yaml:"control" jsonschema:"minimum=0,description=calls without faults made first"`
	Drain      Duration `yaml:"drain" jsonschema:"description=time for the remaining streams after the faults stopped"`
}

// A Stage moves the rate linearly to Rate within For.
type Stage struct {
	For  Duration `yaml:"for"`
	Rate Rate     `yaml:"rate"`
}

// A Call is what the load asks for: one of Tool, Resource (its URI) and Prompt.
type Call struct {
	Tool     string         `yaml:"tool,omitempty"`
	Resource string         `yaml:"resource,omitempty" jsonschema:"description=URI of a resource to read instead of a tool"`
	Prompt   string         `yaml:"prompt,omitempty" jsonschema:"description=prompt to get instead of a tool"`
	Weight   int            `yaml:"weight" jsonschema:"minimum=1"`
	Args     map[string]any `yaml:"args"`
	Deadline Duration       `yaml:"deadline"`
	Expect   Expect         `yaml:"expect"`
}

// Expect says which messages a call brings and how they are numbered.
type Expect struct {
	Messages Count  `yaml:"messages" jsonschema:"description=messages per call; auto: learnt from control calls"`
	Method   string `yaml:"method" jsonschema:"description=the notification that carries them; notifications/message for log messages"`
	Sequence string `yaml:"sequence" jsonschema:"description=JSON Pointer to the number 1..N"`
	Total    string `yaml:"total" jsonschema:"description=JSON Pointer to N"`
	Digest   string `yaml:"digest" jsonschema:"description=JSON Pointer to a hex digest of the payload: sha256 or sha1 or md5 or crc32"`
	Payload  string `yaml:"payload" jsonschema:"description=JSON Pointer to the text that the digest is taken over"`
}

// Emit is what the tool emit of the reference server sends per call.
type Emit struct {
	Messages      int      `yaml:"messages" jsonschema:"minimum=0"`
	Interval      Duration `yaml:"interval"`
	Burst         int      `yaml:"burst" jsonschema:"minimum=1,description=messages per interval"`
	Bytes         Size     `yaml:"bytes" jsonschema:"description=size of a message"`
	ResultBytes   Size     `yaml:"result_bytes"`
	PollingCloses int      `yaml:"polling_closes" jsonschema:"minimum=0,description=how often the server closes the connection of a call that goes on"`
	Requests      int      `yaml:"requests" jsonschema:"minimum=0,description=requests of the server that the client has to answer during a call"`
}

// Faults is the mix of faults, the seat they act from and their window.
type Faults struct {
	Seat  string   `yaml:"seat" jsonschema:"enum=client,enum=proxy"`
	Start Duration `yaml:"start"`
	Stop  Duration `yaml:"stop" jsonschema:"description=0: end of load"`
	Mix   []Fault  `yaml:"mix"`
}

// A Fault is one item of the mix: a kind, its places and how often it strikes.
type Fault struct {
	Kind string `yaml:"kind"`
	// At names the places; empty means every place the kind applies to, evenly.
	At []string `yaml:"at"`
	// PerStream is exact; a fraction is the share of streams that get one more.
	PerStream float64    `yaml:"per_stream" jsonschema:"minimum=0"`
	Every     Duration   `yaml:"every" jsonschema:"description=run-wide clock instead of per_stream"`
	For       Duration   `yaml:"for" jsonschema:"description=how long it lasts"`
	By        Duration   `yaml:"by" jsonschema:"description=delay: by how much"`
	Rate      Throughput `yaml:"rate" jsonschema:"description=throttle: bytes per second"`
	Code      int        `yaml:"code" jsonschema:"description=status: the code"`
	Share     Percent    `yaml:"share" jsonschema:"description=share of the links that are struck"`
}

// Resume is the resume policy of the load generator.
type Resume struct {
	Jitter     Percent  `yaml:"jitter" jsonschema:"description=added to the time the server asked for"`
	Backoff    Duration `yaml:"backoff"`
	BackoffMax Duration `yaml:"backoff_max"`
	Attempts   int      `yaml:"attempts" jsonschema:"minimum=1"`
	Idle       Duration `yaml:"idle" jsonschema:"description=nothing but keep-alive for this long ends an attempt"`
}

// Judge says what the target promises and where the truth comes from.
type Judge struct {
	Contract string   `yaml:"contract" jsonschema:"enum=exactly-once,enum=at-least-once,enum=bounded,enum=none"`
	Oracle   string   `yaml:"oracle" jsonschema:"enum=auto,enum=ledger,enum=numbered,enum=twin,enum=wire"`
	Strict   bool     `yaml:"strict" jsonschema:"description=deviations decide the verdict"`
	Ignore   []string `yaml:"ignore" jsonschema:"description=names of invariants that do not count"`
	Probes   int      `yaml:"probes" jsonschema:"minimum=0,description=streams that are probed after they settled"`
}

// History bounds what a saved run keeps on disk.
type History struct {
	// Bytes is the size from which on the oldest streams that broke nothing are
	// forgotten.
	Bytes Size `yaml:"bytes" jsonschema:"description=size at which the oldest undamaged streams are dropped"`
}

// Reach is what a run must have met at least; 0 demands nothing.
type Reach struct {
	Cuts         int `yaml:"cuts,omitempty" jsonschema:"minimum=0"`
	Resumes      int `yaml:"resumes,omitempty" jsonschema:"minimum=0"`
	Places       int `yaml:"places,omitempty" jsonschema:"minimum=0"`
	Storms       int `yaml:"storms,omitempty" jsonschema:"minimum=0"`
	DoubleCuts   int `yaml:"double_cuts,omitempty" jsonschema:"minimum=0"`
	CutsInReplay int `yaml:"cuts_in_replay,omitempty" jsonschema:"minimum=0"`
	JudgedCuts   int `yaml:"judged_cuts,omitempty" jsonschema:"minimum=0"`
	MaxOpen      int `yaml:"max_open,omitempty" jsonschema:"minimum=0"`
}

// Default returns the profile that an empty file describes.
func Default() Profile {
	return Profile{
		Version: 1,
		Target: Target{
			ReadyTimeout: Duration(30 * time.Second), Dialect: "resume", Transport: "http",
			Headers: map[string]string{}, HTTPProxy: "env", HTTP: "auto", Protocol: "2025-11-25",
		},
		Server: Server{
			Store: "memory", Delivery: "follow", Lock: "stream", Retry: Duration(100 * time.Millisecond),
			OnConflict: "takeover", Limits: Limits{Events: 10000, Bytes: 64 << 20, Streams: 100000},
		},
		Load: LoadModel{
			Streams: 200, Stages: []Stage{}, MaxOpen: 20000, Ramp: Duration(time.Second),
			Control: 3, Drain: Duration(30 * time.Second),
		},
		Calls: []Call{DefaultCall()},
		Emit:  Emit{Messages: 50, Interval: Duration(20 * time.Millisecond), Burst: 1, Bytes: 200, ResultBytes: 200},
		Faults: Faults{
			Seat: "client", Mix: []Fault{},
		},
		Resume: Resume{
			Jitter: 10, Backoff: Duration(100 * time.Millisecond), BackoffMax: Duration(5 * time.Second),
			Attempts: 20, Idle: Duration(30 * time.Second),
		},
		Judge:      Judge{Contract: "exactly-once", Oracle: "auto", Ignore: []string{}, Probes: 20},
		History:    History{Bytes: 1 << 30},
		Thresholds: Thresholds{},
		explicit:   map[string]bool{},
	}
}

// DefaultCall returns what an empty item of calls describes.
func DefaultCall() Call {
	return Call{
		Tool: "emit", Weight: 1, Args: map[string]any{}, Deadline: Duration(time.Minute),
		Expect: Expect{
			Method: progressMethod, Sequence: "/params/progress", Total: "/params/total", Payload: "/params/message",
		},
	}
}

// progressMethod is the notification that carries a call's messages unless it is said
// otherwise.
const progressMethod = "notifications/progress"

// DefaultFault returns what an empty item of faults.mix describes.
func DefaultFault() Fault {
	return Fault{Kind: "rst", At: []string{}, Code: 503, Share: 100}
}
