// A site of a campaign in plain JavaScript, for Node 20 and browsers: no packages, no build step.
//
//   import { Site } from "./client.js";
//   const site = new Site("https://trial.example.org", "doses", token);
//   const step = await site.act("berlin:0042", { severity: 2 });   // { action, version, member, … }
//   await site.report("berlin:0042", [[{ severity: 2 }, step.action, 0.5]], { version: step.version });
//
// As a program: RARESWITCH_TOKEN=rsw_… node client.js berlin:0042 2 0.5
//
// The server decides here, so the site needs a line to act. Reports are sent again until the server
// has them; keep `site.waiting` (for example in localStorage) if the page or program may end before.

const TEMPORARY = new Set([401, 403, 404, 408, 421, 425, 429]);
const FIRST = 1000, LONGEST = 300_000; // milliseconds between two tries
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The service refuses the request, and says why: `problem` is its document (RFC 9457). */
export class RefusedError extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title);
    this.problem = problem;
  }
}

export class Site {
  waiting = []; // reports that the server has not acknowledged, in their order

  constructor(url, campaign, token, { tries = 20, timeout = 10_000 } = {}) {
    this.base = `${url.replace(/\/+$/, "")}/v1/campaigns/${encodeURIComponent(campaign)}`;
    this.token = token;
    this.tries = tries;
    this.timeout = timeout;
  }

  /** Assign episodes to the version in force; the same id always gets the same answer. */
  assign(...ids) {
    return this.#post("/assignments", ids.length === 1 ? { id: ids[0] } : { ids });
  }

  /** Assign an episode and return the action for an observation, or for rows of features.
   *
   * `earlier` are the observations and actions of the stages before: [[observation, action], …]. */
  act(id, observation, earlier = []) {
    const seen = Array.isArray(observation) ? { features: observation } : { observation };
    return this.#post("/act", { id, ...seen, earlier });
  }

  /** Report an episode of raw observations; resolves when it is on the server's disk.
   *
   * `steps` are [observation, action, reward] each; `more` are other fields of the report. */
  async report(id, steps, more = {}) {
    const [observations, actions, rewards] = [0, 1, 2].map((part) => steps.map((one) => one[part]));
    this.waiting.push({ id, observations, actions, rewards, ...more });
    return (await this.flush()).at(-1);
  }

  /** Send the waiting reports in their order. A refused report is not sent again: it is thrown. */
  async flush() {
    const rows = [];
    while (this.waiting.length) {
      const report = this.waiting[0];
      try {
        rows.push(await this.#post("/episodes", report));
      } catch (error) {
        if (error instanceof RefusedError) this.waiting.shift();
        throw error;
      }
      this.waiting.shift();
    }
    return rows;
  }

  async #post(path, body) {
    for (let attempt = 0; ; attempt += 1) {
      let problem, after = 0;
      try {
        const answer = await fetch(this.base + path, {
          method: "POST",
          headers: {
            Authorization: `Bearer ${this.token}`,
            "Content-Type": "application/json",
            Accept: "application/json, application/problem+json",
          },
          body: JSON.stringify(body),
          redirect: "error", // it would carry the token elsewhere
          signal: AbortSignal.timeout(this.timeout),
        });
        const kind = (answer.headers.get("Content-Type") ?? "").split(";")[0].trim();
        // The page of a wireless network is no answer, even with status 200.
        const values = /^application\/(problem\+)?json$/.test(kind) ? await answer.json() : null;
        if (answer.ok && values) return values;
        after = 1000 * (Number(answer.headers.get("Retry-After")) || 0);
        problem = values ?? { title: `the server answered with status ${answer.status}` };
        const aboutReport = [401, 403].includes(answer.status) && problem.field !== undefined;
        const temporary = answer.status >= 500 || TEMPORARY.has(answer.status) || !values;
        if (!temporary || aboutReport) throw new RefusedError(problem);
      } catch (error) {
        if (error instanceof RefusedError) throw error;
        problem = { title: `the server cannot be reached: ${error.message}` };
      }
      if (attempt + 1 >= this.tries) throw new Error(problem.detail ?? problem.title);
      const wait = Math.min(FIRST * 2 ** attempt, LONGEST) * (0.5 + 0.5 * Math.random());
      await sleep(Math.max(wait, after));
    }
  }
}

async function main([id, severity, reward]) {
  const { RARESWITCH_URL, RARESWITCH_CAMPAIGN, RARESWITCH_TOKEN } = process.env;
  const site = new Site(
    RARESWITCH_URL ?? "http://127.0.0.1:8000", RARESWITCH_CAMPAIGN ?? "doses", RARESWITCH_TOKEN,
  );
  const observation = { severity: Number(severity) };
  const step = await site.act(id, observation);
  console.log(`${id}: ${step.action} (version ${step.version}, probability ${step.probability})`);
  const steps = [[observation, step.action, Number(reward)]];
  const row = await site.report(id, steps, { version: step.version });
  console.log(`recorded as row ${row.seq}`);
}

const isProgram = typeof process !== "undefined" && /client\.m?js$/.test(process.argv?.[1] ?? "");
if (isProgram) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
