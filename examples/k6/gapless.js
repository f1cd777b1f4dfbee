// Drives a run of gapless from stock k6: no extension, its HTTP API alone. gapless itself
// opens the streams, cuts and judges them; k6 starts it, hurts it more, and checks what
// came of it, next to whatever else the script does.
//
// NOT RUN by gapless's own tests: k6 is AGPL-3.0 and is not fetched here. They check the
// syntax, and that every path and field used below exists.
//
//   export GAPLESS_TOKEN=$(openssl rand -hex 16)
//   gapless run storm --http 127.0.0.1:8933 --http-token-env GAPLESS_TOKEN --paused --linger 2m &
//   k6 run -e GAPLESS_TOKEN=$GAPLESS_TOKEN gapless.js
import http from "k6/http";
import { check, fail, sleep } from "k6";

const url = __ENV.GAPLESS_URL || "http://127.0.0.1:8933";
const storms = Number(__ENV.STORMS || 3);
const patience = Number(__ENV.PATIENCE || 300); // seconds
const params = { headers: { Authorization: `Bearer ${__ENV.GAPLESS_TOKEN}`, "Content-Type": "application/json" } };

export const options = {
  vus: 1,
  iterations: 1,
  thresholds: { checks: ["rate==1"] }, // one failed check fails the test
};

function get(path) {
  return http.get(url + path, params);
}

function post(path, body) {
  return http.post(url + path, body === undefined ? null : JSON.stringify(body), params);
}

export default function () {
  if (!check(post("/api/start"), { "the paused run starts": (r) => r.status === 200 })) {
    fail("gapless does not start: is it there, is it paused, is the token right?");
  }
  let status = get("/api/status").json();
  let struck = 0;
  for (const deadline = Date.now() + 1000 * patience; status.state !== "done"; status = get("/api/status").json()) {
    if (Date.now() > deadline) {
      post("/api/stop"); // what is open drains and is judged; a run that was stopped never holds
    }
    if (status.state === "running" && status.open > 0 && status.strikes < storms) {
      const answer = post("/api/inject", { share: 1 }); // all links at once, now
      struck += answer.status === 200 ? answer.json().struck : 0;
    }
    sleep(1);
  }
  const result = get("/api/result").json();
  check(result, {
    "streams resumed with no gap and no repeat": (r) => r.verdict === "holds",
    "nothing was lost": (r) => r.messages.lost === 0,
    "nothing was repeated": (r) => r.messages.duplicated === 0,
    "the storms of this script struck": (r) => struck > 0 && r.faults.unplanned > 0,
  });
  check(get("/api/thresholds").json(), {
    "every limit is kept": (r) => r.thresholds.every((limit) => limit.ok),
  });
  console.log(`${result.verdict}: ${result.sentence}`);
  post("/api/stop"); // the result is here, so the run need not linger
}
