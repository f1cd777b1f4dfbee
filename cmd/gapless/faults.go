package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gapless-dev/gapless/chaos"
)

// faultTable lists kinds and places, and which of them go together.
func faultTable() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, k := range chaos.AllKinds() {
		fmt.Fprintf(w, "  %s\t%s\n", k, k.About())
	}
	fmt.Fprintln(w)
	for _, p := range chaos.AllPlaces() {
		fmt.Fprintf(w, "  %s\t%s\n", p, p.About())
	}
	fmt.Fprintln(w)
	for _, line := range pairings() {
		fmt.Fprintf(w, "  %s\t%s\n", strings.Join(line.kinds, ", "), line.where)
	}
	_ = w.Flush() // a strings.Builder takes every write
	return b.String()
}

// A pairing is where faults of these kinds strike.
type pairing struct {
	kinds []string
	where string
}

// pairings sums up the table kind × place × seat: kinds that strike at the same places
// share a line.
func pairings() (all []pairing) {
	for _, k := range chaos.AllKinds() {
		var where [2]string
		for i, seat := range chaos.AllSeats() {
			where[i] = strikes(k, seat)
		}
		line := where[0]
		switch {
		case where[0] == "" && where[1] == "":
			continue // none, and what needs no place
		case where[1] == "":
			line += "; not by a proxy"
		case where[0] != where[1]:
			line += "; by a proxy: " + where[1]
		}
		if i := slices.IndexFunc(all, func(p pairing) bool { return p.where == line }); i >= 0 {
			all[i].kinds = append(all[i].kinds, k.String())
			continue
		}
		all = append(all, pairing{[]string{k.String()}, line})
	}
	return all
}

// strikes says at which places a kind strikes from a seat; "" at none.
func strikes(k chaos.Kind, seat chaos.Seat) string {
	var drawn, named []chaos.Place
	for _, row := range chaos.Cells() {
		switch {
		case row.Kind != k || row.Seat != seat || !row.Possible:
		case row.Drawn:
			drawn = append(drawn, row.Place)
		default:
			named = append(named, row.Place)
		}
	}
	var parts []string
	if len(drawn) > 0 {
		parts = append(parts, "drawn: "+spans(drawn))
	}
	if len(named) > 0 {
		parts = append(parts, "only when named: "+spans(named))
	}
	return strings.Join(parts, "; ")
}

// spans names places; of more than three in a row the first and the last.
func spans(list []chaos.Place) string {
	order := chaos.AllPlaces()
	slices.SortFunc(list, func(x, y chaos.Place) int { return cmp.Compare(slices.Index(order, x), slices.Index(order, y)) })
	var parts []string
	for len(list) > 0 {
		n := 1
		for n < len(list) && slices.Index(order, list[n]) == slices.Index(order, list[0])+n {
			n++
		}
		if n > 3 {
			parts = append(parts, fmt.Sprintf("%s … %s", list[0], list[n-1]))
			list = list[n:]
			continue
		}
		parts = append(parts, list[0].String())
		list = list[1:]
	}
	return strings.Join(parts, ", ")
}
