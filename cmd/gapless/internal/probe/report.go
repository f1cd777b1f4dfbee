package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/gapless-dev/gapless/cmd/gapless/internal/client"
)

// Format is the value of the field gapless of every report.
const Format = "probe/1"

// A Report is what a probe has found.
type Report struct {
	Gapless  string    `json:"gapless"` // Format
	Target   Target    `json:"target"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Rows     []Row     `json:"rows"`
	Summary  Summary   `json:"summary"`
	LeftOver []string  `json:"left_behind"` // what the probe could not take away
}

// Target says what was asked. Name and Version are what it says of itself.
type Target struct {
	URL      string `json:"url"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	Front    string `json:"front"`    // Server and Via header
	Revision string `json:"revision"` // the newest that is spoken
	Sessions bool   `json:"sessions"`
	Tool     string `json:"tool"` // that the stream rows called; "": none
	// Dialects are those that it was found to speak: resume, streams, umcp, modern.
	Dialects []string `json:"dialects"`
}

// Summary counts rows. Must and Should are those of Deviating.
type Summary struct {
	Rows        int `json:"rows"`
	Conforming  int `json:"conforming"`
	Deviating   int `json:"deviating"`
	Must        int `json:"deviating_must"`
	Should      int `json:"deviating_should"`
	Unspecified int `json:"unspecified"`
	NotOffered  int `json:"not_offered"`
	Unsure      int `json:"could_not_tell"`
}

// front is what a server says of itself.
type front struct{ name, version, header, revision string }

func readFront(s *client.Session) front {
	type info struct{ Name, Version string }
	var r struct {
		ServerInfo info `json:"serverInfo"`
		Meta       struct {
			ServerInfo info `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(s.Result(), &r) // then it says nothing
	if r.ServerInfo == (info{}) {
		r.ServerInfo = r.Meta.ServerInfo
	}
	return front{plain(r.ServerInfo.Name), plain(r.ServerInfo.Version), s.Front(), plain(s.Revision())}
}

func (x *run) report(f front) *Report {
	r := &Report{
		Gapless: Format, Started: x.began.UTC().Truncate(time.Second), Seconds: time.Since(x.began).Seconds(), Rows: x.sheet.list(),
		LeftOver: append([]string{}, x.left...),
		Target: Target{
			URL: x.Shown, Name: f.name, Version: f.version, Front: f.header, Revision: f.revision, Sessions: x.sessions, Tool: x.tool.name,
			Dialects: dialects(x.sheet.list()),
		},
	}
	r.Summary.Rows = len(r.Rows)
	for _, row := range r.Rows {
		switch row.Status {
		case Conforming:
			r.Summary.Conforming++
		case Open:
			r.Summary.Unspecified++
		case NotOffered:
			r.Summary.NotOffered++
		case Unsure:
			r.Summary.Unsure++
		case Deviating:
			r.Summary.Deviating++
			r.Summary.Must += b2i(row.Level == Must)
			r.Summary.Should += b2i(row.Level == Should)
		}
	}
	return r
}

// Encode writes the report as JSON.
func (r *Report) Encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
