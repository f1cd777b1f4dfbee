// Package probe asks one MCP endpoint, from outside and without load, what it does at each
// clause that resuming rests on, and also where the specification is silent.
//
//	experiments ──► lanes, each with sessions of its own ──► facts ──► sheet of rows ──► Report
//
// The rows are a table (rows.go), what is asked is a table too (experiments.go): a row names
// a clause and its level, an experiment fills some rows. A row that nothing has filled says
// why it could not be told. A probe tells; it does not judge.
//
// All of it is bounded: in time ([Config.Budget]), sessions, links, messages and bytes. At
// the end it deletes what it opened, and the report says what stays behind.
package probe
