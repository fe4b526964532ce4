// SPDX-License-Identifier: Apache-2.0
// java Attention.java [URL [TEXT]] - one attention with nothing but the JDK, 11 or newer. With a text, what each of its
// tokens looks at most, in one head of stories260K. KEY in the environment is sent as the key.
import java.io.IOException;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

public class Attention {
    private static final int TRIES = 5;
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    // The JDK reads no JSON; rows of plain numbers and texts are easily found. Use a JSON library in earnest.
    private static final Pattern ROW = Pattern.compile("\\[([^\\[\\]{}\"]+)\\]");
    private static final Pattern TEXT = Pattern.compile("\"text\":\"((?:[^\"\\\\]|\\\\.)*)\"");

    // A daemon that is busy (429) or not ready (503) says in how many seconds to ask again. A try ends after 10 s.
    private static String ask(String url, String body) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url))
            .header("Content-Type", "application/json")
            .timeout(Duration.ofSeconds(10))
            .POST(HttpRequest.BodyPublishers.ofString(body));
        String key = System.getenv("KEY");
        if (key != null && !key.isEmpty())
            request.header("Authorization", "Bearer " + key);
        for (int left = TRIES - 1;; left--) {
            HttpResponse<String> response = null;
            try {
                response = CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
            } catch (IOException error) {
                System.err.println(url + ": " + error);
                System.exit(1);
            }
            int status = response.statusCode();
            if (status == 200)
                return response.body();
            if (left == 0 || status != 429 && status != 503) {
                System.err.printf("%d: %.500s%n", status, response.body());
                System.exit(1);
            }
            Thread.sleep(1000 * response.headers().firstValue("Retry-After")
                .filter(after -> after.matches("\\d{1,9}")).map(Long::parseLong).orElse(1L));
        }
    }

    // The rows of what is called name in an answer.
    private static List<double[]> rows(String name, String body) {
        int start = body.indexOf("\"" + name + "\":") + name.length() + 3;
        int end = body.indexOf('"', start);
        return ROW.matcher(body.substring(start, end < 0 ? body.length() : end)).results()
            .map(row -> Stream.of(row.group(1).split(",")).mapToDouble(Double::parseDouble).toArray())
            .collect(Collectors.toList());
    }

    private static void show(String name, String body) {
        System.out.println(name);
        for (double[] row : rows(name, body)) {
            StringBuilder line = new StringBuilder();
            for (double number : row)
                line.append(line.length() > 0 ? " " : "").append(String.format(Locale.ROOT, "%.4f", number));
            System.out.println(line);
        }
    }

    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char c : text.toCharArray())
            json.append(c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : c);
        return json.append('"').toString();
    }

    private static void trace(String url, String text) throws Exception {
        String answer = ask(url + "/v1/trace", "{\"model\":\"stories260K\",\"text\":" + quoted(text)
            + ",\"layers\":[1],\"weight_map\":{\"heads\":[4]}}");
        List<String> tokens = TEXT.matcher(answer).results()
            .map(found -> found.group(1).replaceAll("\\\\([\"\\\\])", "$1")).collect(Collectors.toList());
        int i = 0;
        for (double[] row : rows("weights", answer)) {
            int most = 0;
            for (int k = 1; k < row.length; k++)
                if (row[k] > row[most])
                    most = k;
            System.out.println(tokens.get(i++) + " " + tokens.get(most)
                + String.format(Locale.ROOT, " %.4f", row[most]));
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(new PrintStream(System.out, true, StandardCharsets.UTF_8));
        String url = arguments.length > 0 ? arguments[0] : "http://127.0.0.1:8080";
        if (arguments.length > 1) {
            trace(url, arguments[1]);
            return;
        }
        String answer = ask(url + "/v1/attention", "{\"model\":\"demo\","
            + "\"query\":[[1,0,0],[0,1,0],[1,1,0],[0,0,1]],"
            + "\"outputs\":[\"context\",\"weights\"]}");
        show("context", answer);
        show("weights", answer);
    }
}
