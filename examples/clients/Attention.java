// java Attention.java [URL] - one attention with nothing but the JDK, 11 or newer.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Attention {
    // The JDK reads no JSON; rows of plain numbers are easily found. Use a JSON library in earnest.
    private static final Pattern ROW = Pattern.compile("\\[([^\\[\\]]+)\\]");

    private static void show(String name, String body) {
        int start = body.indexOf("\"" + name + "\":") + name.length() + 3;
        int end = body.indexOf('"', start);
        Matcher rows = ROW.matcher(body.substring(start, end < 0 ? body.length() : end));
        System.out.println(name);
        while (rows.find()) {
            StringBuilder line = new StringBuilder();
            for (String number : rows.group(1).split(","))
                line.append(line.length() > 0 ? " " : "")
                    .append(String.format(Locale.ROOT, "%.4f", Double.parseDouble(number)));
            System.out.println(line);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String url = arguments.length > 0 ? arguments[0] : "http://127.0.0.1:8080";
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/v1/attention"))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(
                "{\"model\":\"demo\","
                + "\"query\":[[1,0,0],[0,1,0],[1,1,0],[0,0,1]],"
                + "\"outputs\":[\"context\",\"weights\"]}"))
            .build();
        HttpResponse<String> response =
            HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            System.err.println(response.body());
            System.exit(1);
        }
        show("context", response.body());
        show("weights", response.body());
    }
}
