<?php
// SPDX-License-Identifier: Apache-2.0
// attention.php [URL [TEXT]] - one attention with nothing but PHP itself. With a text, what each of its tokens looks at
// most, in one head of stories260K. KEY in the environment is sent as the key.
$url = $argv[1] ?? 'http://127.0.0.1:8080';
$text = $argv[2] ?? null;
const TRIES = 5;

// A daemon that is busy (429) or not ready (503) says in how many seconds to ask again. A try ends after 10 s of silence.
function ask(string $url, array $body): array
{
    $key = getenv('KEY') ? ['Authorization: Bearer ' . getenv('KEY')] : [];
    for ($left = TRIES - 1; ; $left--) {
        $answer = file_get_contents($url, false, stream_context_create(['http' => [
            'method' => 'POST',
            'header' => ['Content-Type: application/json', ...$key],
            'content' => json_encode($body),
            'timeout' => 10,
            'ignore_errors' => true, // a fault has a body too
        ]]));
        if ($answer === false) {
            exit(1);
        }
        $head = implode("\n", $http_response_header);
        $status = (int) substr($head, strlen('HTTP/1.1 '), 3);
        if ($status === 200) {
            return json_decode($answer, true, 512, JSON_THROW_ON_ERROR);
        }
        if ($left === 0 || !in_array($status, [429, 503])) {
            fwrite(STDERR, "$status: " . substr($answer, 0, 500) . "\n"); // of a proxy it is no JSON
            exit(1);
        }
        sleep(preg_match('/^Retry-After: *(\d+)/mi', $head, $found) ? (int) $found[1] : 1);
    }
}

if ($text === null) {
    $answer = ask("$url/v1/attention", [
        'model' => 'demo',
        'query' => [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]],
        'outputs' => ['context', 'weights'],
    ]);
    foreach (['context' => $answer['context'], 'weights' => $answer['weights'][0]] as $name => $rows) {
        echo "$name\n";
        foreach ($rows as $row) {
            echo implode(' ', array_map(fn ($number) => sprintf('%.4f', $number), $row)), "\n";
        }
    }
} else {
    $answer = ask("$url/v1/trace", [
        'model' => 'stories260K', 'text' => $text, 'layers' => [1], 'weight_map' => ['heads' => [4]],
    ]);
    $tokens = array_column($answer['tokens'], 'text');
    foreach ($answer['layers'][0]['weights'][0] as $i => $row) {
        $most = max($row);
        printf("%s %s %.4f\n", $tokens[$i], $tokens[array_search($most, $row)], $most);
    }
}
