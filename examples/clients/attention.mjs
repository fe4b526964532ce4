// attention.mjs [URL] - one attention with fetch: Node 18 or newer, or any browser.
const url = process.argv[2] ?? "http://127.0.0.1:8080";

const response = await fetch(`${url}/v1/attention`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({
    model: "demo",
    query: [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]],
    outputs: ["context", "weights"],
  }),
});
const answer = await response.json();
if (!response.ok) throw new Error(answer.error);

for (const [name, rows] of [["context", answer.context], ["weights", answer.weights[0]]]) {
  console.log(name);
  for (const row of rows) console.log(row.map((number) => number.toFixed(4)).join(" "));
}
