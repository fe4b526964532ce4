<?php
// SPDX-License-Identifier: Apache-2.0
// pooling.php [URL] - attention pooling: one vector for a sentence of many tokens, by a learned query.
//
//     make run                      # in one terminal
//     php examples/pooling.php      # in another
//
// The vectors of the tokens are those that stories260K has of them. The pooled vector of a sentence is one attention
// over them: one query row; keys and values are the tokens. What the query looks for is learned here from eight
// sentences, happy and sad ones, by gradients that the daemon computes. Nothing but PHP itself is needed.
$url = $argv[1] ?? 'http://127.0.0.1:8080';

const MODEL = 'stories260K';
const LAYER = 2; // whose hidden states are taken
const STEPS = 40;
const RATE = 0.5;
const QUERY_RATE = 2.0;

// Sentences to learn from, and others to try: 1 is happy, 0 is sad.
const LEARNED = [
    ['Tim was happy.', 1],
    ['Lily was sad.', 0],
    ['The big dog was so happy to play in the park.', 1],
    ['The little cat was sad and did not want to play.', 0],
    ['Her mom and her friend saw that she was happy.', 1],
    ['Her mom and her friend saw that she was sad.', 0],
    ['They were happy with the red ball.', 1],
    ['They were sad, for the red ball was lost.', 0],
];
const TRIED = [
    ['One day, Tom was very happy and ran to the big tree.', 1],
    ['One day, Tom was very sad and ran to the big tree.', 0],
    ['Sue had a boat, and it made her happy.', 1],
    ['Sue had no boat, and it made her sad.', 0],
];

function ask(string $path, array $request): array
{
    global $url;
    $body = file_get_contents($url . $path, false, stream_context_create(['http' => [
        'method' => 'POST',
        'header' => 'Content-Type: application/json',
        'content' => json_encode($request),
        'ignore_errors' => true, // a fault has a body too
    ]]));
    $answer = $body === false ? ['error' => "no answer from $url"] : json_decode($body, true);
    if (isset($answer['error'])) {
        fwrite(STDERR, $answer['error'] . "\n");
        exit(1);
    }
    return $answer;
}

// The tokens of all sentences behind each other, and a mask that keeps the sentences apart: row i of it may look at
// the tokens of sentence i alone. So one request pools all sentences.
function read(array $sentences): array
{
    $requests = array_map(fn ($sentence) => ['text' => $sentence[0]], $sentences);
    $answer = ask('/v1/trace/batch', ['model' => MODEL, 'layers' => [LAYER], 'outputs' => ['hidden_states'],
        'special' => false, 'requests' => $requests]);
    $vectors = $words = $owners = [];
    foreach ($answer['results'] as $i => $result) {
        foreach ($result['layers'][0]['hidden_states'] as $token => $vector) {
            $vectors[] = $vector;
            $words[] = str_replace('▁', '', $result['tokens'][$token]['text']);
            $owners[] = $i;
        }
    }
    $mask = [];
    foreach ($sentences as $i => $sentence) {
        $mask[] = array_map(fn ($owner) => $owner === $i, $owners);
    }
    return ['texts' => array_column($sentences, 0), 'labels' => array_column($sentences, 1), 'vectors' => $vectors,
        'words' => $words, 'mask' => $mask];
}

// The request that pools them: the same query for each.
function request(array $set, array $query): array
{
    return ['model' => 'sdpa', 'query' => array_fill(0, count($set['labels']), $query), 'key' => $set['vectors'],
        'mask' => $set['mask']];
}

function dot(array $a, array $b): float
{
    return array_sum(array_map(fn ($x, $y) => $x * $y, $a, $b));
}

function add(array $a, float $factor, array $b): array
{
    return array_map(fn ($x, $y) => $x + $factor * $y, $a, $b);
}

// How likely a pooled vector is of a happy sentence.
function happy(array $model, array $pooled): float
{
    return 1 / (1 + exp(-dot($model['weights'], $pooled) - $model['bias']));
}

// Gradient descent on the logistic loss. A query of zeros looks at all tokens alike: the mean, to begin with.
function learn(array $set, bool $learnQuery): array
{
    $zeros = array_fill(0, count($set['vectors'][0]), 0);
    $model = ['query' => $zeros, 'weights' => $zeros, 'bias' => 0.0];
    for ($step = 0; $step < STEPS; $step++) {
        $request = request($set, $model['query']);
        $pooled = ask('/v1/attention', $request + ['outputs' => ['context']])['context'];
        $next = $model;
        $gradients = [];
        foreach ($pooled as $i => $vector) {
            $error = happy($model, $vector) - $set['labels'][$i];
            $next['weights'] = add($next['weights'], -RATE * $error, $vector);
            $next['bias'] -= RATE * $error;
            $gradients[] = array_map(fn ($weight) => $error * $weight, $model['weights']);
        }
        if ($learnQuery) {
            // From the gradient of each pooled vector to that of its query.
            $answer = ask('/v1/attention/gradients', $request + ['context_gradient' => $gradients]);
            foreach ($answer['query'] as $gradient) {
                $next['query'] = add($next['query'], -QUERY_RATE, $gradient);
            }
        }
        $model = $next;
    }
    return $model;
}

function report(array $set, array $model): void
{
    $answer = ask('/v1/attention', request($set, $model['query']));
    foreach ($answer['context'] as $i => $pooled) {
        $weights = $answer['weights'][0][$i];
        $most = array_keys($weights, max($weights))[0];
        $happy = happy($model, $pooled);
        $verdict = ($happy > 0.5) == $set['labels'][$i] ? 'right' : 'wrong';
        printf("%s: happy %.2f, looks most at %s (%.2f): %s\n", $verdict, $happy, $set['words'][$most],
            $weights[$most], $set['texts'][$i]);
    }
}

$learned = read(LEARNED);
$tried = read(TRIED);
foreach (['the mean of all tokens' => false, 'a learned query' => true] as $name => $learnQuery) {
    echo "$name\n";
    report($tried, learn($learned, $learnQuery));
}
