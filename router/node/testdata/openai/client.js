// A program of an OpenAI client that knows nothing of Rillkeep but its address. It
// prints what it got as JSON.
import OpenAI from "openai";

const [baseURL, id, stream] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: process.env.TOKEN ?? "none" });
const headers = { "X-Rillkeep-Stream-Id": id };
const body = { model: "m-large", messages: [{ role: "user", content: "Hi" }] };
const got = { text: "", finish: null, id: null, error: null };
try {
  if (stream === "false") {
    const { data, response } = await client.chat.completions.create(body, { headers }).withResponse();
    got.text = data.choices[0].message.content;
    got.finish = data.choices[0].finish_reason;
    got.id = response.headers.get("x-rillkeep-stream-id");
  } else {
    const { data, response } = await client.chat.completions.create({ ...body, stream: true }, { headers }).withResponse();
    got.id = response.headers.get("x-rillkeep-stream-id");
    for await (const chunk of data) {
      got.text += chunk.choices[0]?.delta?.content ?? "";
      got.finish = chunk.choices[0]?.finish_reason ?? got.finish;
    }
  }
} catch (e) {
  got.error = { status: e.status ?? 0, code: String(e.code ?? ""), message: e.message };
}
console.log(JSON.stringify(got));
