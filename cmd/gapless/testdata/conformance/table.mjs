// Prints what the suite found, one line a scenario, and exits 1 unless all is well.
//
//   node table.mjs RESULTS
//
// RESULTS has a folder for each run below, in which the suite has made a folder for each
// scenario. The suite itself fails for a FAILURE alone: here a WARNING fails too, and a
// check that was skipped, a scenario that checked nothing or left no report, and a run
// that had fewer scenarios than the version of the suite has.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const runs = {
  'server 2025-11-25 by 0.1.16': 32,
  'server 2025-11-25 by 0.2.0-alpha.12': 33,
  'server 2026-07-28 by 0.2.0-alpha.12': 40,
  'client by 0.1.16': 3,
  'client by 0.2.0-alpha.12': 3,
};

// What the suite notes without judging it.
const exchange = ['incoming-request', 'outgoing-response'];
const notes = {
  'server-sse-polling': ['outgoing-request', 'incoming-response', 'incoming-sse-event', 'stream-closed'],
  'sse-retry': [...exchange, 'outgoing-sse-event', 'outgoing-stream-close'],
  tools_call: exchange,
  initialize: ['server-info'],
};

// "server-tools-list-2026-11-30T13-22-41-091Z" is a run of "tools-list".
function scenarioOf(folder, side) {
  const name = folder.replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
  return side === 'server' ? name.replace(/^server-/, '') : name;
}

function readChecks(file) {
  if (!existsSync(file)) return { complaint: 'no checks.json' };
  try {
    const checks = JSON.parse(readFileSync(file, 'utf8'));
    return Array.isArray(checks) ? { checks } : { complaint: 'checks.json is no list' };
  } catch (error) {
    return { complaint: `checks.json: ${error.message}` };
  }
}

// judge counts the checks of a scenario and says what is wrong with them.
function judge(scenario, file) {
  const { checks = [], complaint } = readChecks(file);
  const counts = { SUCCESS: 0, WARNING: 0, FAILURE: 0, other: 0 };
  const complaints = complaint ? [complaint] : [];
  for (const { id, status, errorMessage } of checks) {
    if (status === 'INFO' && notes[scenario]?.includes(id)) continue;
    counts[status in counts ? status : 'other']++;
    if (status !== 'SUCCESS') complaints.push(`${id}: ${status}${errorMessage ? ` (${errorMessage})` : ''}`);
  }
  if (!complaint && counts.SUCCESS === 0) complaints.push('nothing was checked');
  return { counts, complaints };
}

const columns = (...cells) => cells.map((c, i) => (i === 0 ? String(c).padEnd(46) : String(c).padStart(9))).join('');
const results = process.argv[2];
let passed = 0;
let failed = 0;

for (const [run, expected] of Object.entries(runs)) {
  const folder = join(results, run);
  const scenarios = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }).filter((e) => e.isDirectory()).map((e) => e.name).sort() : [];
  console.log(`\n${columns(run, 'SUCCESS', 'WARNING', 'FAILURE', 'other')}`);
  const seen = new Set();
  for (const name of scenarios) {
    const scenario = scenarioOf(name, run.split(' ')[0]);
    seen.add(scenario);
    const { counts, complaints } = judge(scenario, join(folder, name, 'checks.json'));
    console.log(columns(`  ${scenario}`, counts.SUCCESS, counts.WARNING, counts.FAILURE, counts.other) + (complaints.length ? '   RED' : ''));
    for (const c of complaints) console.log(`      ${c.replace(/\s+/g, ' ').slice(0, 300)}`);
    if (complaints.length) failed++;
    else passed++;
  }
  if (seen.size !== expected || scenarios.length !== expected) {
    console.log(`      ${scenarios.length} scenarios ran, ${expected} were expected   RED`);
    failed++;
  }
}
console.log(`\nconformance: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
