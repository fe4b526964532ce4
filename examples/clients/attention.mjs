// SPDX-License-Identifier: Apache-2.0
// attention.mjs [URL [TEXT]] - one attention with fetch, in Node 18 or newer. With a text, what each of its
// tokens looks at most, in one head of stories260K. KEY in the environment is sent as the key.
const [url = "http://127.0.0.1:8080", text] = process.argv.slice(2);
const TRIES = 5;

function fail(said) {
  console.error(said);
  process.exit(1);
}

// A daemon that is busy (429) or not ready (503) says in how many seconds to ask again. A try ends after 10 s.
async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (process.env.KEY) headers.Authorization = `Bearer ${process.env.KEY}`;
  for (let left = TRIES - 1; ; left--) {
    let response, answer; // of a proxy it is no JSON
    try {
      response = await fetch(url + path, {
        method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(10_000),
      });
      answer = await response.text();
    } catch (error) {
      fail(`${url}: ${error.cause?.message || error.message}`);
    }
    if (response.ok) return JSON.parse(answer);
    if (left === 0 || ![429, 503].includes(response.status))
      fail(`${response.status}: ${answer.slice(0, 500)}`);
    const after = response.headers.get("Retry-After");
    await new Promise((resume) => setTimeout(resume, 1000 * (/^\d+$/.test(after) ? after : 1)));
  }
}

if (text === undefined) {
  const answer = await ask("/v1/attention", {
    model: "demo",
    query: [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]],
    outputs: ["context", "weights"],
  });
  for (const [name, rows] of [["context", answer.context], ["weights", answer.weights[0]]]) {
    console.log(name);
    for (const row of rows) console.log(row.map((number) => number.toFixed(4)).join(" "));
  }
} else {
  const { tokens, layers } = await ask("/v1/trace", {
    model: "stories260K", text, layers: [1], weight_map: { heads: [4] },
  });
  layers[0].weights[0].forEach((row, i) => {
    const most = Math.max(...row);
    console.log(`${tokens[i].text} ${tokens[row.indexOf(most)].text} ${most.toFixed(4)}`);
  });
}
